// The overview keeps itself up to date: numbers from the board, lines from the events.
import { watch } from "./board.js";
import { follow } from "./events.js";
import { chip, element, forcedMark, readJson } from "./marks.js";
import { showBoard } from "./tiles.js";
import { clock, timeElement } from "./times.js";

const looks = readJson("looks");
const feed = document.getElementById("feed");
const LINES = 60;

function show(board) {
  showBoard(board);
  draw(board.minutes);
}

// The chart: every minute of the last hour, also those in which nothing moved.
let chart = null;
let latest = null; // while the script is fetched newer numbers may come
async function draw(given) {
  latest = given;
  if (!(await plotting())) return;
  const minutes = latest;
  const now = Math.floor(Date.now() / 60000) * 60;
  const times = Array.from({ length: 60 }, (_, place) => now - (59 - place) * 60);
  const by = new Map(Object.entries(minutes).map(([minute, row]) => [Date.parse(minute) / 1000, row]));
  const data = [times, times.map((at) => by.get(at)?.transitions ?? 0), times.map((at) => by.get(at)?.failures ?? 0)];
  if (chart) chart.setData(data);
  else chart = make(data);
}

// Fetched when there is time: the numbers and the lines come first. What failed is forgotten, and tried again.
const AGAIN = 5_000;
let fetched = null;
function plotting() {
  return (fetched ??= new Promise((resolve) => {
    const [script, style] = [element("script", ""), element("link", "")];
    script.src = new URL("../vendor/uPlot.iife.min.js", import.meta.url);
    script.onload = () => resolve(true);
    script.onerror = () => {
      fetched = null;
      script.remove();
      style.remove();
      setTimeout(() => draw(latest), AGAIN);
      resolve(false);
    };
    style.rel = "stylesheet";
    style.href = new URL("../vendor/uPlot.min.css", import.meta.url);
    document.head.append(style, script);
  }));
}

function make(data) {
  const box = document.getElementById("rates");
  const colour = (name) => {
    const probe = element("span", name);
    document.body.append(probe);
    const found = getComputedStyle(probe).color;
    probe.remove();
    return found;
  };
  const axis = { stroke: colour("muted"), grid: { stroke: colour("chart-grid"), width: 1 }, ticks: { show: false }, font: "11px Inter, sans-serif" };
  const made = new uPlot({
    width: box.clientWidth, height: box.clientHeight,
    legend: { show: false }, cursor: { y: false },
    axes: [{ ...axis, size: 30, values: (_, splits) => splits.map((at) => clock(new Date(at * 1000)).slice(0, 5)) }, { ...axis, size: 44 }],
    scales: { y: { range: (_, low, high) => [0, Math.max(high, 1)] } },
    series: [{}, { label: "moves", stroke: colour("tone-active"), width: 2, fill: colour("chart-fill"), points: { show: false } },
      { label: "failures", stroke: colour("tone-failed"), width: 2, points: { show: false } }],
  }, data, box);
  new ResizeObserver(() => made.setSize({ width: box.clientWidth, height: box.clientHeight })).observe(box);
  return made;
}

function line(event) {
  const { collection, noun, states } = looks[event.entity_type];
  const link = element("a", "id", event.entity_id);
  link.href = `/machines/${collection}/${encodeURIComponent(event.entity_id)}/`;
  const sentence = element("span", "sentence", element("span", "muted", noun), link, chip(states[event.to_state], event.to_state));
  if (event.kind === "override") sentence.append(forcedMark());
  sentence.append(element("span", "muted", `${event.trigger} · ${event.actor}`));
  const item = element("li", "", timeElement(event.timestamp, "clock"), sentence);
  item.dataset.event = event.event_id;
  return item;
}

// Nothing moves under the pointer: what comes while it is over the list waits until it is not.
let waiting = [];
let isPaused = false;
const pause = document.getElementById("feed-pause");
pause.addEventListener("click", () => {
  isPaused = !isPaused;
  pause.setAttribute("aria-pressed", String(isPaused));
  flush();
});
feed.addEventListener("pointerleave", flush);

function flush() {
  pause.textContent = isPaused ? `Go on${waiting.length ? ` (+${waiting.length})` : ""}` : "Pause";
  if (isPaused || feed.matches(":hover") || !waiting.length) return;
  feed.prepend(...waiting.slice(-LINES).reverse().map(line));
  waiting = [];
  while (feed.children.length > LINES) feed.lastElementChild.remove();
}

const known = new Set(document.querySelector("[data-machine]") ? [...document.querySelectorAll("[data-machine]")].map((card) => card.dataset.machine) : []);
follow({}, (events) => {
  waiting.push(...events.filter((event) => known.has(event.entity_type)));
  waiting = waiting.slice(-LINES);
  flush();
}, () => location.reload());

watch(show);
// Without a word from the server the chart is of the numbers that the page was made with.
setTimeout(() => { if (!latest) draw(readJson("stats").minutes); }, 2000);
