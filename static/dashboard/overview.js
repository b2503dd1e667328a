// Keeps the overview current: numbers from the board, feed lines from events.
import { watch } from "./board.js";
import { follow } from "./events.js";
import { showHolds } from "./holds.js";
import { showWorst } from "./incidents.js";
import { chip, element, forcedMark, readJson } from "./marks.js";
import { showBoard } from "./tiles.js";
import { timeElement } from "./times.js";

const looks = readJson("looks");
const feed = document.getElementById("feed");
const LINES = 60;

function show(board) {
  showBoard(board);
  showHolds(board.holds);
  showWorst(board.incidents);
}

const humanize = (name) => (name.charAt(0).toUpperCase() + name.slice(1)).replaceAll("_", " ");
function line(event) {
  const { collection, noun, states } = looks[event.entity_type];
  const link = element("a", "id", event.entity_id);
  link.href = `/machines/${collection}/${encodeURIComponent(event.entity_id)}/`;
  const sentence = element("span", "sentence", element("span", "muted", noun), link, chip(states[event.to_state], event.to_state));
  if (event.kind === "override") sentence.append(forcedMark());
  sentence.append(element("span", "muted", `${humanize(event.trigger)} · ${event.actor}`));
  const item = element("li", "", timeElement(event.timestamp, "clock"), sentence);
  item.dataset.event = event.event_id;
  return item;
}

// The feed does not move under the pointer: new lines wait until it leaves the list.
let waiting = []; // the newest of those that arrived
let arrived = 0;
let isPaused = false;
const pause = document.getElementById("feed-pause");
pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
  flush();
});
feed.addEventListener("pointerleave", flush);

function flush() {
  pause.textContent = isPaused ? `Resume${arrived ? ` (+${arrived})` : ""}` : "Pause";
  if (isPaused || feed.matches(":hover") || !waiting.length) return;
  feed.prepend(...waiting.slice(-LINES).reverse().map(line));
  waiting = [];
  arrived = 0;
  while (feed.children.length > LINES) feed.lastElementChild.remove();
}

const known = new Set(document.querySelector("[data-machine]") ? [...document.querySelectorAll("[data-machine]")].map((card) => card.dataset.machine) : []);
follow({}, (events) => {
  const visible = events.filter((event) => known.has(event.entity_type));
  arrived += visible.length;
  waiting = [...waiting, ...visible].slice(-LINES);
  flush();
}, () => location.reload());

watch(show);
