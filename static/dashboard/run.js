// The replay of a run: its journal is loaded once, and any moment is the fold of the events before it.
import { Graph, layout } from "../vendor/dagre.esm.js";
import { follow } from "./events.js";
import { followHeartbeats } from "./heartbeats.js";
import { chip, errorNote, readJson, svg, use } from "./marks.js";
import { connection } from "./freshness.js";
import { moment } from "./times.js";

const drawn = readJson("drawn");
const looks = readJson("looks");
const keyOf = (type, id) => `${type} ${id}`;
const parts = new Map(drawn.nodes.map((node) => [keyOf(node.type, node.id), node]));
const runKey = keyOf("run", document.body.dataset.run);
const slider = document.getElementById("time");
const STEPS = Number(slider.max);
followHeartbeats();
let journal = [];
let isLive = true;

const look = (type, state) => looks[type]?.states[state];
const toneOf = (type, state) => look(type, state)?.tone ?? "ended";
const isFinal = (type, state) => ["done", "failed", "ended"].includes(toneOf(type, state));
const address = (node) => `/machines/${looks[node.type].collection}/${encodeURIComponent(node.id)}/`;

// The graph: workstreams are boxes around their parts, with the name on top.
const NAMED = 16, WIDEST = 200, MARK = 34, EACH = 7.2, NARROW = 620;
const widthOf = (key) => Math.min(WIDEST, Math.max(70, parts.get(key).id.length * EACH + MARK));
function drawGraph() {
  const box = document.getElementById("graph");
  if (!drawn.nodes.length) return box.replaceChildren("This run has no parts yet. They appear here once they are created.");
  const isNarrow = box.clientWidth < NARROW;
  document.getElementById("graph-hint").textContent = isNarrow ? "tasks and gates by workstream" : "tasks and gates by workstream, with dependencies";
  const picture = isNarrow ? drawRows(box.clientWidth - 26) : drawDependencies();
  box.replaceChildren(picture);
  for (const name of picture.querySelectorAll(".name")) squeeze(name);
}

// On a phone: each workstream as wide as the page, its parts in rows. Dependencies would need more room.
const GAP = 8, HIGH = 28;
function drawRows(width) {
  const picture = svg("svg", {});
  const children = new Map();
  for (const [key, node] of parts) {
    const parent = node.parent && keyOf("workstream", node.parent);
    if (parts.has(parent)) children.set(parent, [...(children.get(parent) ?? []), key]);
  }
  const inBoxes = new Set([...children.values()].flat());
  const loose = [];
  let bottom = drawRow([...parts.keys()].filter((key) => !children.has(key) && !inBoxes.has(key)), GAP / 2, loose);
  picture.append(...loose);
  for (const [key, members] of children) {
    const [inside, top] = [[], bottom + GAP + NAMED];
    bottom = drawRow(members, top + GAP, inside) + GAP;
    picture.append(cluster({ x: width / 2, y: (top + bottom) / 2, width, height: bottom - top }, parts.get(key)), ...inside);
  }
  function drawRow(keys, top, into) {
    let [left, row] = [GAP, top];
    for (const key of keys.toSorted((one, other) => parts.get(one).id.localeCompare(parts.get(other).id, undefined, { numeric: true }))) {
      const wide = Math.min(widthOf(key), width - 2 * GAP);
      if (left > GAP && left + wide > width - GAP) [left, row] = [GAP, row + HIGH + GAP];
      into.push(member({ x: left + wide / 2, y: row + HIGH / 2, width: wide }, parts.get(key)));
      left += wide + GAP;
    }
    return keys.length ? row + HIGH : top;
  }
  for (const [name, value] of Object.entries({ width, height: bottom + GAP })) picture.setAttribute(name, value);
  return picture;
}

function drawDependencies() {
  const graph = new Graph({ compound: true });
  graph.setGraph({ rankdir: "LR", nodesep: 12, ranksep: 46, marginx: 8, marginy: 8 + NAMED });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const [key, node] of parts) {
    if (node.type === "workstream") graph.setNode(key, { label: node.id });
    else graph.setNode(key, { width: widthOf(key), height: HIGH });
  }
  for (const [key, node] of parts) {
    const parent = node.parent && keyOf("workstream", node.parent);
    if (parent && parts.has(parent)) graph.setParent(key, parent);
  }
  const isBox = (key) => graph.children(key)?.length > 0;
  for (const edge of drawn.edges) {
    const [from, to] = [keyOf(edge.from_type, edge.from), keyOf(edge.type, edge.to)];
    if (!isBox(from) && !isBox(to)) graph.setEdge(from, to);
  }
  for (const key of parts.keys()) if (!isBox(key) && !graph.node(key).width) Object.assign(graph.node(key), { width: 120, height: 28 });
  layout(graph);
  const { width, height } = graph.graph();
  const picture = svg("svg", { viewBox: `0 0 ${width} ${height}`, width, height });
  for (const key of parts.keys()) if (isBox(key)) picture.append(cluster(graph.node(key), parts.get(key)));
  for (const each of graph.edges()) {
    const points = graph.edge(each).points.map((point) => `${point.x},${point.y}`).join(" L");
    picture.append(svg("g", { class: "edge" }, svg("path", { d: `M${points}` })));
  }
  for (const key of parts.keys()) if (!isBox(key)) picture.append(member(graph.node(key), parts.get(key)));
  return picture;
}

// The width of a text is known once it is drawn; text that is too wide is condensed.
function squeeze(name) {
  const room = name.parentElement.querySelector("rect").width.baseVal.value - MARK;
  if (name.getComputedTextLength() <= room) return;
  name.setAttribute("textLength", room);
  name.setAttribute("lengthAdjust", "spacingAndGlyphs");
}

// Shape and word of the state precede the name; a long name is cut at the start.
function cluster(place, node) {
  const [left, top] = [place.x - place.width / 2, place.y - place.height / 2];
  const text = svg("text", { x: left + 22, y: top - 2, "data-most": Math.floor((place.width - 26) / LETTER) });
  text.append(svg("tspan", { class: "state" }), svg("tspan"));
  return svg("g", { class: "cluster faded", "data-part": keyOf(node.type, node.id) }, svg("title"),
    svg("rect", { x: left, y: top - NAMED, width: place.width, height: place.height + NAMED, rx: 8 }), use("waiting", left + 8, top - 11, 10), text);
}

const LETTER = 6.4;
const shortened = (text, most) => (text.length <= most ? text : most > 3 ? `…${text.slice(1 - most)}` : "");
function nameCluster(place, node, word) {
  const text = place.querySelector("text");
  const [state, id] = text.children;
  state.textContent = word;
  id.textContent = ` ${shortened(node.id, Number(text.dataset.most) - word.length - 1)}`;
}

function member(place, node) {
  const left = place.x - place.width / 2;
  const text = svg("text", { class: "name", x: left + 24, y: place.y + 4 });
  text.textContent = shortened(node.id, Math.floor((place.width - MARK) / EACH));
  const title = svg("title");
  title.textContent = `${node.type} ${node.id}`;
  return svg("a", { href: address(node), class: "node", "data-part": keyOf(node.type, node.id) }, title,
    svg("rect", { x: left, y: place.y - 14, width: place.width, height: 28, rx: 6 }), use("waiting", left + 8, place.y - 5.5, 11), text);
}

// States over time.
const MOST_ROWS = 250, TICK = 150;
const BESIDE = { label: 190, row: 20, text: 14, bar: 4, letters: 27 }, ABOVE = { label: 8, row: 34, text: 13, bar: 18, letters: 48 };
function drawGantt() {
  const box = document.getElementById("gantt");
  const spans = new Map();
  for (const [, at, type, id, state] of journal) {
    const key = keyOf(type, id);
    if (!spans.has(key)) spans.set(key, []);
    spans.get(key).push({ at, state, type });
  }
  const { first, last } = (shown = range());
  const all = [...spans].filter(([key, [{ type }]]) => key === runKey || drawn.types.includes(type));
  const rows = all.slice(0, MOST_ROWS);
  document.getElementById("gantt-rows").textContent = all.length > rows.length ? `${rows.length} of ${all.length} parts` : "";
  const width = box.clientWidth;
  const place = width < NARROW ? ABOVE : BESIDE; // on a phone the name is above its bar
  const height = rows.length * place.row + 26;
  const x = (at) => place.label + ((at - first) / Math.max(last - first, 0.001)) * (width - place.label - 8);
  const picture = svg("svg", { width, height });
  const steps = Math.max(2, Math.floor((width - place.label) / TICK));
  for (let step = 0; step <= steps; step += 1) {
    const at = first + ((last - first) * step) / steps;
    const text = svg("text", { x: x(at), y: height - 6, "text-anchor": step === steps ? "end" : "start" });
    text.textContent = formatTime(at);
    picture.append(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: 0, y2: height - 20 }), text);
  }
  rows.forEach(([key, stays], number) => {
    const top = number * place.row;
    const label = svg("text", { class: "label", x: 8, y: top + place.text });
    label.textContent = shortened(key.slice(key.indexOf(" ") + 1), place.letters);
    picture.append(label);
    stays.forEach((stay, step) => {
      const end = stays[step + 1]?.at ?? (isFinal(stay.type, stay.state) ? stay.at : last);
      picture.append(...bar(key, stay, { from: x(stay.at), to: x(end), top: top + place.bar }));
    });
  });
  picture.append(svg("line", { class: "now", id: "gantt-now", y1: 0, y2: height - 20 }));
  box.replaceChildren(picture);
  box.x = x;
}

const BAR = 12;
// One bar: the colour of its state, a label for hover and screen readers, and the word where it fits.
function bar(key, stay, { from, to, top }) {
  const { tone, shade, word } = look(stay.type, stay.state) ?? { tone: "ended", shade: 0, word: stay.state };
  const width = Math.max(2, to - from);
  const name = `${key}: ${word} from ${formatTime(stay.at)}`;
  const title = svg("title");
  title.textContent = name;
  const made = svg("rect", { class: `fill-${tone} shade-${shade}`, x: from, y: top, width, height: BAR, rx: 2, role: "img", "aria-label": name }, title);
  if (width < word.length * LETTER + 8) return [made];
  const text = svg("text", { class: "word", x: from + 4, y: top + 9.5, "aria-hidden": "true" });
  text.textContent = word;
  return [made, text];
}

// From the first event to the last, or to now while the run is active.
let shown = null;
function range() {
  const now = Date.now() / 1000;
  const first = journal[0]?.[1] ?? now;
  const last = Math.max(journal.at(-1)?.[1] ?? first, first + 1);
  return { first, last: isUnderWay() ? Math.max(last, now) : last };
}

function isUnderWay() {
  const [, , type, , state] = journal.findLast(([, , kind]) => kind === "run") ?? [];
  return state !== undefined && !isFinal(type, state);
}

const A_DAY = 86_400, A_MOMENT = 10;
function formatTime(at) {
  const span = shown.last - shown.first;
  const tenths = span < A_MOMENT ? `.${Math.floor(at * 10) % 10}` : "";
  return moment(new Date(at * 1000), span > A_DAY) + tenths;
}

// Shows every part in the state after its last event before the selected moment.
function show() {
  const { first, last } = shown;
  const until = isLive ? Infinity : first + ((last - first) * Number(slider.value)) / STEPS;
  const states = new Map();
  for (const [, at, type, id, state] of journal) {
    if (at > until) break;
    states.set(keyOf(type, id), state);
  }
  for (const [key, node] of parts) {
    const place = document.querySelector(`#graph [data-part="${CSS.escape(key)}"]`);
    if (place) showPart(place, node, states.get(key));
  }
  const runState = states.get(runKey);
  if (runState) document.getElementById("run-chip").replaceChildren(chip(look("run", runState), runState, "big"));
  showProgress(states);
  document.getElementById("moment").textContent = isLive ? "Now" : `At ${formatTime(until)}`;
  const line = document.getElementById("gantt-now");
  const at = document.getElementById("gantt").x?.(isLive ? last : until);
  if (line && at !== undefined) { line.setAttribute("x1", at); line.setAttribute("x2", at); }
}

// Counted from the journal, which has every task; the graph of a large run draws only some of them.
function showProgress(states) {
  const total = new Set(journal.filter(([, , type]) => type === "task").map(([, , , id]) => id)).size;
  let ended = 0;
  for (const [key, state] of states) if (key.startsWith("task ") && isFinal("task", state)) ended += 1;
  const progress = document.getElementById("progress");
  document.getElementById("ended").textContent = ended;
  document.getElementById("total").textContent = total;
  progress.max = total || 1;
  progress.value = ended;
}

function showPart(place, node, state) {
  const [tone, word] = state ? [toneOf(node.type, state), look(node.type, state)?.word ?? state] : ["faded", "not created yet"];
  const [shape, isBox] = [place.querySelector("use"), place.matches(".cluster")];
  place.setAttribute("class", `${isBox ? "cluster" : "node"} ${tone}`);
  place.dataset.state = state ?? "";
  shape.setAttribute("href", shape.getAttribute("href").replace(/#.*/, `#${state ? tone : "waiting"}`));
  place.querySelector("title").textContent = `${keyOf(node.type, node.id)}: ${word}`;
  if (isBox) nameCluster(place, node, word);
}

let timer = 0;
const play = document.getElementById("play");
function stop() { clearInterval(timer); timer = 0; play.textContent = "Play"; }
play.addEventListener("click", () => {
  if (timer) return stop();
  if (isLive || Number(slider.value) >= STEPS) slider.value = 0;
  isLive = false;
  play.textContent = "Pause";
  timer = setInterval(() => {
    slider.value = Number(slider.value) + STEPS / 150;
    if (Number(slider.value) >= STEPS) stop();
    show();
  }, 66);
});
document.getElementById("now").addEventListener("click", () => { stop(); isLive = true; slider.value = STEPS; show(); });
slider.addEventListener("input", () => { stop(); isLive = Number(slider.value) >= STEPS; show(); });

// A long journal is loaded in several requests.
async function readJournal(address) {
  let page;
  do {
    const answer = await fetch(`${address}?after=${journal.at(-1)?.[0] ?? 0}`, { headers: { Accept: "application/json" } });
    if (!answer.ok) throw new Error(`The server returned status ${answer.status}.`);
    page = await answer.json();
    journal = journal.concat(page.events);
  } while (page.more);
}

// Without its journal a run cannot be drawn: shows an error and retries.
const FIRST = 1_000, LONGEST = 30_000;
async function readJournalWithRetry() {
  for (let wait = FIRST; ; wait = Math.min(wait * 2, LONGEST)) {
    try {
      return await readJournal(document.body.dataset.journal);
    } catch (error) {
      document.getElementById("graph").replaceChildren(errorNote("The history of this run could not be loaded", `${error.message} Retrying…`));
      document.getElementById("gantt").replaceChildren();
      await new Promise((resolve) => setTimeout(resolve, wait * (0.5 + Math.random())));
    }
  }
}

const controls = [slider, play, document.getElementById("now")];
for (const each of controls) each.disabled = true;
drawGraph();
await readJournalWithRetry();
if (document.querySelector("#graph [data-empty=error]")) drawGraph();
for (const each of controls) each.disabled = false;
document.body.dataset.position = Math.max(Number(document.body.dataset.position), journal.at(-1)?.[0] ?? 0);
drawGantt();
show();
document.body.dataset.ready = "yes";
const GROWS = 5_000;
setInterval(() => {
  if (!isLive || document.hidden || !connection.isFresh || !isUnderWay()) return;
  drawGantt();
  show();
}, GROWS);

// A part created later needs a new layout of the whole graph.
const news = document.getElementById("news");
news.addEventListener("click", () => location.reload());
const isNew = (event) => event.kind === "created" && looks[event.entity_type] && event.entity_type !== "run" && !parts.has(keyOf(event.entity_type, event.entity_id));
follow({ run: document.body.dataset.run }, (events) => {
  if (events.some(isNew)) news.classList.remove("hidden");
  for (const event of events) journal.push([event.position, Date.parse(event.timestamp) / 1000, event.entity_type, event.entity_id, event.to_state, event.kind]);
  drawGantt();
  show();
}, () => location.reload());
