// The wall keeps itself alive: pages turn, numbers follow the board, old ones dim, a new build or a new day reloads.
import { watch } from "./board.js";
import { connection } from "./freshness.js";
import { set, showBoard } from "./tiles.js";
import { tellTimes } from "./times.js";

const { alive, build, pairing, token, seconds } = document.body.dataset;
const STALE = 30_000, BEAT = 30_000, A_DAY = 86_400_000;
const loadedAt = Date.now();
let shownAt = Date.now();

watch((board) => {
  shownAt = Date.now();
  showBoard(board);
});

const pages = [...document.querySelectorAll("[data-page]")];
let turned = 0;
function turn() {
  turned = (turned + 1) % pages.length;
  pages.forEach((page, place) => { page.hidden = place !== turned; });
  set(document.getElementById("dots"), pages.length > 1 ? pages.map((_, place) => (place === turned ? "●" : "○")).join("") : "");
}
turned = pages.length - 1;
turn();
setInterval(turn, Number(seconds) * 1000);

const clock = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });
setInterval(() => {
  set(document.getElementById("clock"), clock.format(Date.now()));
  set(document.getElementById("updated"), `updated ${new Date(shownAt).toLocaleTimeString()}`);
  document.body.classList.toggle("stale", connection.state === "disconnected" && Date.now() - connection.heardAt > STALE);
  tellTimes();
}, 1000);

async function beat() {
  try {
    const response = await fetch(alive, { method: "POST", headers: { "X-CSRFToken": token }, redirect: "manual" });
    if (response.type === "opaqueredirect" || response.status === 403) return location.replace(pairing);
    const answer = await response.json();
    if (answer.build !== build) return location.reload();
    if (Date.now() - loadedAt > A_DAY) return location.reload();
  } catch { /* the server is away: what is shown stays, and dims */ }
}
beat();
setInterval(beat, BEAT);
