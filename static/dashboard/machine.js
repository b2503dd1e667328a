// The page of a machine: live counts, rows that change in place, and new ones behind "+N new".
import { watch } from "./board.js";
import { draw } from "./diagram.js";
import { follow } from "./events.js";
import { chip, forcedMark, readJson } from "./marks.js";
import { completeSearch } from "./search.js";
import { timeElement } from "./times.js";

const machine = document.body.dataset.machine;
const drawing = readJson("drawing");
const looks = Object.fromEntries(drawing.nodes.map((node) => [node.id, node]));
const box = document.querySelector("[data-drawing]");
draw(box, drawing);
completeSearch(document.querySelector("[data-search]"), readJson("hints"));

watch((board) => {
  const counts = board.counts[machine] ?? {};
  for (const [state, count] of Object.entries(counts)) {
    const place = box.querySelector(`[data-node="${CSS.escape(state)}"] .count`);
    if (place) place.textContent = count;
    // The board knows nothing of a search: `refreshChips` updates the chips that count one.
    const filter = document.querySelector(`.filters:not([data-searched]) [data-state="${CSS.escape(state)}"] b`);
    if (filter) filter.textContent = count;
  }
  const live = drawing.nodes.filter((node) => !node.final).reduce((sum, node) => sum + (counts[node.id] ?? 0), 0);
  document.querySelector("[data-live]").textContent = live;
  document.querySelector("[data-total]").textContent = Object.values(counts).reduce((sum, count) => sum + count, 0);
});

// An entity outside the list is news when the search may find it: it is new, or entered one of the searched states.
// Conditions that an event cannot be checked against are ignored. Counted up to a limit that keeps the page small.
const MOST = 1_000;
const fresh = new Set();
let hasMore = false;
const filter = readJson("filter");
function isNews(event) {
  const fits = filter.states.length ? filter.states.includes(event.to_state) : event.kind === "created";
  return fits && mayMatch(event);
}

function mayMatch(event) {
  return filter.prefixes.every((prefix) => event.entity_id.startsWith(prefix)) &&
    Object.entries(filter.within).every(([name, id]) => event.context?.[name] === id);
}

// The chips of a search are counted by the server, at most once a second while matching events arrive. Adding up events
// here would be wrong: the server may have counted a change before its event got a position.
const CHIPS_DELAY = 1_000;
let chipsTimer = 0;
function refreshChips() {
  if (!document.querySelector(".filters[data-searched]")) return;
  chipsTimer ||= setTimeout(() => {
    chipsTimer = 0;
    const url = new URL(location.href);
    url.searchParams.set("part", "filters");
    htmx.ajax("GET", url.pathname + url.search, { target: "#filters", swap: "outerHTML" });
  }, CHIPS_DELAY);
}

function note(id) {
  if (fresh.size < MOST) fresh.add(id);
  else hasMore ||= !fresh.has(id);
}

function change(row, event) {
  if (event.sequence <= Number(row.dataset.version)) return;
  row.dataset.version = event.sequence;
  row.querySelector("[data-chip]").replaceChildren(chip(looks[event.to_state], event.to_state));
  row.querySelector("[data-entered]").replaceChildren(timeElement(event.timestamp, "ago"));
  row.querySelector("[data-version-shown]").textContent = event.sequence;
  if (event.kind === "override" && !row.querySelector(".mark-forced")) row.querySelector("[data-chip]").after(" ", forcedMark());
  row.classList.remove("flash");
  void row.offsetWidth;
  row.classList.add("flash");
}

follow({ entity_type: machine }, (events) => {
  for (const event of events) {
    const row = document.querySelector(`tr[data-id="${CSS.escape(event.entity_id)}"]`);
    if (row) change(row, event);
    else if (isNews(event)) note(event.entity_id);
    else if (filter.states.length) fresh.delete(event.entity_id);
  }
  if (events.some(mayMatch)) refreshChips();
  const news = document.getElementById("news");
  if (!news) return;
  const more = hasMore ? " or more" : "";
  news.textContent = filter.is_complete ? `+${fresh.size}${more} new` : `${fresh.size}${more} may match. Refresh`;
  news.classList.toggle("hidden", !fresh.size);
}, () => location.reload());

document.addEventListener("click", (event) => {
  if (!event.target.closest("[data-refresh]")) return;
  fresh.clear();
  hasMore = false;
  htmx.ajax("GET", location.pathname + location.search, { target: "#entities", swap: "innerHTML" });
});

// Rows are selected one by one or a page at once.
const bar = document.getElementById("bulk");
const boxes = () => [...document.querySelectorAll("input[name=ids]")];
function count() {
  const ticked = boxes().filter((each) => each.checked).length;
  bar.hidden = ticked === 0;
  bar.querySelector("[data-selected]").textContent = ticked;
}
if (bar) {
  document.addEventListener("change", (event) => { if (event.target.name === "ids") count(); });
  bar.querySelector("[data-select-page]").addEventListener("click", () => { for (const each of boxes()) each.checked = true; count(); htmx.trigger(bar, "page-chosen"); });
  document.body.addEventListener("htmx:afterSwap", count);
}
