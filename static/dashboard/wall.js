// The wall keeps itself alive: pages turn, numbers follow the board, old ones dim, a new build or a new day reloads.
import { watch } from "./board.js";
import { connection } from "./freshness.js";
import { set, showBoard } from "./tiles.js";
import { ago, clock, tellTimes } from "./times.js";

const { alive, build, pairing, token, seconds } = document.body.dataset;
const STALE = 60_000, BEAT = 30_000, A_DAY = 86_400_000;
const loadedAt = Date.now();
const dayAndTime = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

// Each tile knows when its own numbers changed last; a snapshot after a reconnect that tells the same is no change.
const tiles = [...document.querySelectorAll(".tile")];
const told = new Map();
watch((board, news) => {
  for (const machine of Object.keys(news.counts ?? {})) {
    const [before, counts] = [told.get(machine), JSON.stringify(board.counts[machine])];
    if (before?.counts !== counts) told.set(machine, { counts, at: before ? Date.now() : 0 });
  }
  showBoard(board);
});

function tellAge(tile, isStale) {
  const changed = told.get(tile.dataset.machine)?.at;
  tile.classList.toggle("stale", isStale);
  const words = changed ? `changed ${ago(new Date(changed))}` : `no change since ${clock.format(loadedAt)}`;
  set(tile.querySelector("[data-updated]"), isStale ? `as of ${clock.format(connection.heardAt)}` : words);
}

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

function look() {
  const isStale = Date.now() - connection.heardAt > STALE;
  set(document.getElementById("clock"), dayAndTime.format(Date.now()));
  document.body.classList.toggle("stale", isStale);
  for (const tile of tiles) tellAge(tile, isStale);
  tellTimes();
}
look();
setInterval(look, 1000);

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
