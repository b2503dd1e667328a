// Keeps the overview current: numbers from the board, feed lines from events.
import { watch } from "./board.js";
import { follow } from "./events.js";
import { showHolds } from "./holds.js";
import { showWorst } from "./incidents.js";
import { chip, element, forcedMark, readJson } from "./marks.js";
import { showBoard } from "./tiles.js";
import { clock, timeElement } from "./times.js";

const looks = readJson("looks");
const feed = document.getElementById("feed");
const LINES = 60;

function show(board) {
  showBoard(board);
  showHolds(board.holds);
  showWorst(board.incidents);
  draw(board.minutes);
}

// The chart: every complete minute of the last hour, and a dot for the current one, which would look like a dip.
let chart = null;
let latest = null; // may be replaced while the chart library loads
async function draw(given) {
  latest = given;
  if (!(await plotting())) return;
  const minutes = latest;
  const now = Math.floor(Date.now() / 60000) * 60;
  const times = Array.from({ length: 60 }, (_, place) => now - (59 - place) * 60);
  const by = new Map(Object.entries(minutes).map(([minute, row]) => [Date.parse(minute) / 1000, row]));
  const complete = (name) => times.map((at) => (at < now ? by.get(at)?.[name] ?? 0 : null));
  const soFar = times.map((at) => (at < now ? null : by.get(at)?.transitions ?? 0));
  const data = [times, complete("transitions"), complete("failures"), soFar];
  if (chart) chart.setData(data);
  else chart = make(data);
}

// The chart library loads after the numbers and the feed; a failed load is retried.
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
    series: [{}, { label: "transitions", stroke: colour("tone-active"), width: 2, fill: colour("chart-fill"), points: { show: false } },
      { label: "failures", stroke: colour("tone-failed"), width: 2, points: { show: false } },
      { label: "this minute so far", stroke: colour("tone-active"), width: 0, points: { show: true, size: 6, fill: colour("tone-active") } }],
  }, data, box);
  new ResizeObserver(() => made.setSize({ width: box.clientWidth, height: box.clientHeight })).observe(box);
  return made;
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
// Without a message from the server the chart shows the numbers that the page was rendered with.
setTimeout(() => { if (!latest) draw(readJson("stats").minutes); }, 2000);
