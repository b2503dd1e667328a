// The wall: rotates pages, follows the board, dims stale numbers, reloads on a new build and daily.
import { watch } from "./board.js";
import { connection } from "./freshness.js";
import { showHolds } from "./holds.js";
import { showWorst } from "./incidents.js";
import { element, icon, readJson } from "./marks.js";
import { set, writeShort, showBoard } from "./tiles.js";
import { ago, clock, span, timeElement, updateTimes } from "./times.js";

const { alive, build, pairing, token, seconds } = document.body.dataset;
const STALE = 60_000, BEAT = 30_000, A_DAY = 86_400_000;
const loadedAt = Date.now();
const dayAndTime = new Intl.DateTimeFormat(undefined, { weekday: "short", hour: "2-digit", minute: "2-digit", hourCycle: "h23" });

// When the counts of each tile last changed; a snapshot with the same counts after a reconnect is no change.
const tiles = [...document.querySelectorAll(".tile")];
const changes = new Map();
if (tiles.length) watch((board, news) => {
  for (const machine of Object.keys(news.counts ?? {})) {
    const [before, counts] = [changes.get(machine), JSON.stringify(board.counts[machine])];
    if (before?.counts !== counts) changes.set(machine, { counts, at: before ? Date.now() : 0 });
  }
  show(board);
});

// Text that does not fit is shrunk until it does, because a cut-off number misleads. Ends of runs but the first are left
// out before.
const SMALLEST = 0.4, STEP = 0.04;
const isCut = (box) => box.scrollHeight > box.clientHeight || [box, ...box.children].some((each) => each.scrollWidth > each.clientWidth);
const write = (box, size) => box.style.setProperty("--fit", size);
function fit(box) {
  let size = 1;
  write(box, size);
  const ends = [...box.querySelectorAll("[data-run-ends] li")];
  for (const each of ends) each.hidden = false;
  while (isCut(box) && ends.length > 1) ends.pop().hidden = true;
  while (isCut(box) && size > SMALLEST) write(box, (size -= STEP));
  return size;
}
function fitAll() {
  // The key figures first, all in one size; the tiles get the remaining height.
  const figures = [...document.querySelectorAll(".key-figure")];
  const smallest = Math.min(...figures.map(fit));
  for (const box of figures) write(box, smallest);
  document.querySelectorAll("[data-page]:not([hidden]) .tile").forEach(fit);
}
// The transitions of each minute of the last hour, as a line across the tile.
function showTrend(tile, numbers = []) {
  const most = Math.max(...numbers, 1);
  tile.querySelector("[data-trend]").setAttribute("points", numbers.map((number, place) => `${place},${10 - (9.5 * number) / most}`).join(" "));
}

function showBlockedGates(gates = []) {
  const place = document.querySelector("[data-blocked-gates]");
  place.hidden = gates.length === 0;
  const names = gates.map(({ id, since }) => element("span", "", element("strong", "", id), " ", timeElement(since, "length")));
  place.replaceChildren(icon("held"), element("span", "", gates.length === 1 ? "Blocked gate:" : "Blocked gates:"), ...names);
}

// When the runs that started last will probably end, or why that is unknown.
function showRunEnds(ends = []) {
  const lines = ends.map(({ run, earliest, latest, reason }) =>
    element("li", "", element("b", "", run), earliest ? ` ends ${span(new Date(earliest), new Date(latest))}` : `: end unknown, ${reason}`));
  document.querySelector("[data-run-ends]")?.replaceChildren(...lines);
}

let holds = [];
function show(board) {
  showBoard(board, writeShort);
  showWorst(board.incidents);
  showBlockedGates(board.blocked_gates);
  showRunEnds(board.run_ends);
  for (const tile of tiles) showTrend(tile, board.trends?.[tile.dataset.machine]);
  holds = board.holds;
  showHolds(holds);
  fitAll();
}
addEventListener("resize", fitAll);
document.fonts.ready.then(fitAll);

function showAge(tile, isStale) {
  const changed = changes.get(tile.dataset.machine)?.at;
  tile.classList.toggle("stale", isStale);
  const words = changed ? `changed ${ago(new Date(changed))}` : `no change since ${clock(new Date(loadedAt))}`;
  set(tile.querySelector("[data-updated]"), isStale ? `as of ${clock(new Date(connection.contactAt))}` : words);
}

const pages = [...document.querySelectorAll("[data-page]")];
let turned = 0;
function turn() {
  turned = (turned + 1) % pages.length;
  pages.forEach((page, place) => { page.hidden = place !== turned; });
  fitAll();
  set(document.getElementById("dots"), pages.length > 1 ? pages.map((_, place) => (place === turned ? "●" : "○")).join("") : "");
}
turned = pages.length - 1;
refresh();
turn();
show(readJson("stats"));
setInterval(turn, Number(seconds) * 1000);

function refresh() {
  const isStale = Date.now() - connection.contactAt > STALE;
  set(document.getElementById("clock"), dayAndTime.format(Date.now()));
  document.body.classList.toggle("stale", isStale);
  for (const tile of tiles) showAge(tile, isStale);
  if (showHolds(holds)) fitAll();
  updateTimes();
}
setInterval(refresh, 1000);

async function beat() {
  try {
    const response = await fetch(alive, { method: "POST", headers: { "X-CSRFToken": token }, redirect: "manual" });
    if (response.type === "opaqueredirect" || response.status === 403) return location.replace(pairing);
    const answer = await response.json();
    if (answer.build !== build) return location.reload();
    if (Date.now() - loadedAt > A_DAY) return location.reload();
  } catch { /* the server is unreachable: the last values stay and dim */ }
}
beat();
setInterval(beat, BEAT);
