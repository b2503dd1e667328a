// A run, replayed: its journal is read once, and any moment of it is the fold of what came before.
import { Graph, layout } from "../vendor/dagre.esm.js";
import { follow } from "./events.js";
import { chip, readJson, svg, use } from "./marks.js";
import { clock } from "./times.js";

const drawn = readJson("drawn");
const looks = readJson("looks");
const keyOf = (type, id) => `${type} ${id}`;
const parts = new Map(drawn.nodes.map((node) => [keyOf(node.type, node.id), node]));
const runKey = keyOf("run", document.body.dataset.run);
const slider = document.getElementById("time");
const STEPS = Number(slider.max);
let journal = [];
let isLive = true;

const look = (type, state) => looks[type]?.states[state];
const toneOf = (type, state) => look(type, state)?.tone ?? "ended";
const isFinal = (type, state) => ["done", "failed", "ended"].includes(toneOf(type, state));
const address = (node) => `/machines/${looks[node.type].collection}/${encodeURIComponent(node.id)}/`;

// The graph: workstreams are boxes around their parts, with their name above.
const NAMED = 16;
function drawGraph() {
  const box = document.getElementById("graph");
  if (!drawn.nodes.length) return box.replaceChildren("This run has no parts.");
  const graph = new Graph({ compound: true });
  graph.setGraph({ rankdir: box.clientWidth < 620 ? "TB" : "LR", nodesep: 12, ranksep: 46, marginx: 8, marginy: 8 + NAMED });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const [key, node] of parts) {
    if (node.type === "workstream") graph.setNode(key, { label: node.id });
    else graph.setNode(key, { width: Math.min(190, Math.max(70, node.id.length * 6.6 + 34)), height: 28 });
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
  box.replaceChildren(picture);
}

function cluster(place, node) {
  const text = svg("text", { x: place.x - place.width / 2 + 8, y: place.y - place.height / 2 - 2 });
  text.textContent = node.id;
  const group = svg("g", { class: "cluster", "data-part": keyOf(node.type, node.id) });
  group.append(svg("rect", { x: place.x - place.width / 2, y: place.y - place.height / 2 - NAMED, width: place.width, height: place.height + NAMED, rx: 8 }), text);
  return group;
}

function member(place, node) {
  const left = place.x - place.width / 2;
  const text = svg("text", { class: "name", x: left + 24, y: place.y + 4 });
  const most = Math.floor((place.width - 30) / 6.2);
  text.textContent = node.id.length > most ? `…${node.id.slice(1 - most)}` : node.id;
  const title = svg("title");
  title.textContent = `${node.type} ${node.id}`;
  return svg("a", { href: address(node), class: "node", "data-part": keyOf(node.type, node.id) }, title,
    svg("rect", { x: left, y: place.y - 14, width: place.width, height: 28, rx: 6 }), use("waiting", left + 8, place.y - 5.5, 11), text);
}

// Who was when in which state.
const LABEL = 190, ROW = 20, NARROWEST = 560, TICK = 150;
function drawGantt() {
  const box = document.getElementById("gantt");
  const spans = new Map();
  for (const [, at, type, id, state] of journal) {
    const key = keyOf(type, id);
    if (!spans.has(key)) spans.set(key, []);
    spans.get(key).push({ at, state, type });
  }
  const { first, last } = range();
  const rows = [...spans].filter(([key]) => parts.has(key) || key === runKey).slice(0, 250);
  const height = rows.length * ROW + 26;
  const width = Math.max(box.clientWidth, NARROWEST);
  const x = (at) => LABEL + ((at - first) / Math.max(last - first, 0.001)) * (width - LABEL - 8);
  const picture = svg("svg", { width, height });
  const steps = Math.max(2, Math.floor((width - LABEL) / TICK));
  for (let step = 0; step <= steps; step += 1) {
    const at = first + ((last - first) * step) / steps;
    const text = svg("text", { x: x(at), y: height - 6, "text-anchor": step === steps ? "end" : "start" });
    text.textContent = clock.format(at * 1000);
    picture.append(svg("line", { class: "grid", x1: x(at), x2: x(at), y1: 0, y2: height - 20 }), text);
  }
  rows.forEach(([key, stays], place) => {
    const label = svg("text", { class: "label", x: 8, y: place * ROW + 14 });
    const id = key.slice(key.indexOf(" ") + 1);
    label.textContent = id.length > 27 ? `…${id.slice(-26)}` : id;
    picture.append(label);
    stays.forEach((stay, number) => {
      const end = stays[number + 1]?.at ?? (isFinal(stay.type, stay.state) ? stay.at : last);
      const bar = svg("rect", { class: `fill-${toneOf(stay.type, stay.state)} shade-${look(stay.type, stay.state)?.shade ?? 0}`, x: x(stay.at), y: place * ROW + 4, width: Math.max(2, x(end) - x(stay.at)), height: ROW - 8, rx: 2 });
      const title = svg("title");
      title.textContent = `${key}: ${stay.state}`;
      bar.append(title);
      picture.append(bar);
    });
  });
  picture.append(svg("line", { class: "now", id: "gantt-now", y1: 0, y2: height - 20 }));
  box.replaceChildren(picture);
  box.x = x;
}

function range() {
  const first = journal[0]?.[1] ?? Date.now() / 1000;
  return { first, last: Math.max(journal.at(-1)?.[1] ?? first, first + 1) };
}

// The moment shown: every part in the state its last event before then left it in.
function show() {
  const { first, last } = range();
  const moment = isLive ? Infinity : first + ((last - first) * Number(slider.value)) / STEPS;
  const states = new Map();
  for (const [, at, type, id, state] of journal) {
    if (at > moment) break;
    states.set(keyOf(type, id), state);
  }
  let ended = 0, total = 0;
  for (const [key, node] of parts) {
    const state = states.get(key);
    const place = document.querySelector(`#graph [data-part="${CSS.escape(key)}"]`);
    if (place?.matches(".node")) {
      place.setAttribute("class", `node ${state ? toneOf(node.type, state) : "faded"}`);
      place.dataset.state = state ?? "";
      place.querySelector("use").setAttribute("href", place.querySelector("use").getAttribute("href").replace(/#.*/, `#${state ? toneOf(node.type, state) : "waiting"}`));
      place.querySelector("title").textContent = `${key}: ${state ?? "not yet made"}`;
    }
    if (node.type !== "task") continue;
    total += 1;
    if (state && isFinal("task", state)) ended += 1;
  }
  const runState = states.get(runKey);
  if (runState) document.getElementById("run-chip").replaceChildren(chip(look("run", runState), runState, "big"));
  document.getElementById("ended").textContent = ended;
  document.getElementById("total").textContent = total;
  document.getElementById("progress").value = ended;
  document.getElementById("moment").textContent = isLive ? "now" : `as it was at ${clock.format(moment * 1000)}`;
  const line = document.getElementById("gantt-now");
  const at = document.getElementById("gantt").x?.(isLive ? last : moment);
  if (line && at !== undefined) { line.setAttribute("x1", at); line.setAttribute("x2", at); }
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

// A long one comes in pieces: what is missing would be shown as it was long ago.
async function readJournal(address) {
  let told;
  do {
    const answer = await fetch(`${address}?after=${journal.at(-1)?.[0] ?? 0}`, { headers: { Accept: "application/json" } });
    told = await answer.json();
    journal = journal.concat(told.events);
  } while (told.more);
}

drawGraph();
await readJournal(document.body.dataset.journal);
document.body.dataset.position = Math.max(Number(document.body.dataset.position), journal.at(-1)?.[0] ?? 0);
drawGantt();
show();
document.body.dataset.ready = "yes";

// A part that came later has no place in the graph: where it goes is for the whole graph to say.
const news = document.getElementById("news");
news.addEventListener("click", () => location.reload());
const isNew = (event) => event.kind === "created" && looks[event.entity_type] && event.entity_type !== "run" && !parts.has(keyOf(event.entity_type, event.entity_id));
follow({ run: document.body.dataset.run }, (events) => {
  if (events.some(isNew)) news.classList.remove("hidden");
  for (const event of events) journal.push([event.position, Date.parse(event.timestamp) / 1000, event.entity_type, event.entity_id, event.to_state, event.kind]);
  drawGantt();
  show();
}, () => location.reload());
