// The page of a run: loads its parts and its journal once, follows its events, and keeps every drawing at the same moment.
import { connection } from "./freshness.js";
import { follow } from "./events.js";
import { followHeartbeats } from "./heartbeats.js";
import { chip, errorNote, readJson } from "./marks.js";
import { RunGantt } from "./run_gantt.js";
import { RunGraph } from "./run_graph.js";
import { keyOf, RunModel } from "./run_model.js";
import { Replay } from "./run_replay.js";
import { Toolbar } from "./run_toolbar.js";
import { RunView } from "./run_view.js";

const looks = readJson("looks");
const run = document.body.dataset.run;
const address = (part) => `/machines/${looks[part.type].collection}/${encodeURIComponent(part.id)}/`;
const [graphBox, ganttBox] = ["graph", "gantt"].map((id) => document.getElementById(id));
followHeartbeats();

async function fetchJson(path) {
  const answer = await fetch(path, { headers: { Accept: "application/json" } });
  if (!answer.ok) throw new Error(`The server returned status ${answer.status}.`);
  return answer.json();
}

// A long journal is loaded in several requests.
async function load() {
  const model = new RunModel(run, looks, await fetchJson("parts/"));
  for (let more = true; more;) {
    const page = await fetchJson(`journal/?after=${model.position}`);
    model.append(page);
    more = page.more;
  }
  return model;
}

// Without its journal a run cannot be drawn: shows an error and retries.
const FIRST = 1_000, LONGEST = 30_000;
async function loadWithRetry() {
  for (let wait = FIRST; ; wait = Math.min(wait * 2, LONGEST)) {
    try {
      return await load();
    } catch (error) {
      graphBox.replaceChildren(errorNote("The history of this run could not be loaded", `${error.message} Retrying…`));
      ganttBox.replaceChildren();
      await new Promise((resolve) => setTimeout(resolve, wait * (0.5 + Math.random())));
    }
  }
}

const model = await loadWithRetry();
const view = new RunView(model);
const gantt = new RunGantt(ganttBox, model, view, address);
const graph = new RunGraph(graphBox, model, view, address, () => { graph.draw(); show(); });
const toolbar = new Toolbar(model, view, graph, gantt, show);
const replay = new Replay(model, view, show);

// Everything at the moment of the view.
function show() {
  gantt.draw();
  graph.show();
  showHeader();
  toolbar.showCount();
}

function showHeader() {
  const state = model.run.stateAt(view.until);
  if (state) document.getElementById("run-chip").replaceChildren(chip(model.look("run", state), state, "big"));
  document.getElementById("moment").textContent = view.at === null ? "Now" : `At ${gantt.formatTime(view.at)}`;
  const tasks = model.lines.filter((line) => line.type === "task" && line.startedAt <= view.until);
  const ended = tasks.filter((line) => model.isFinal("task", line.stateAt(view.until))).length;
  const progress = document.getElementById("progress");
  document.getElementById("ended").textContent = ended;
  document.getElementById("total").textContent = tasks.length;
  progress.max = tasks.length || 1;
  progress.value = ended;
}

graph.draw();
show();
replay.enable();
document.body.dataset.position = Math.max(Number(document.body.dataset.position), model.position);
document.body.dataset.ready = "yes";

// Drawn at most twice a second, however fast events arrive.
const DELAY = 500;
let timer = 0;
const showSoon = () => { timer ||= setTimeout(() => { timer = 0; show(); }, DELAY); };

// The layout depends on the width; while the page is printed or hidden, there is none.
const SMALLEST = 200;
let width = graphBox.clientWidth;
new ResizeObserver(() => {
  if (graphBox.clientWidth === width || graphBox.clientWidth < SMALLEST) return;
  width = graphBox.clientWidth;
  graph.draw();
  show();
}).observe(graphBox);

const GROWS = 5_000;
setInterval(() => {
  if (view.at === null && !document.hidden && connection.isFresh && model.isUnderWay) show();
}, GROWS);

// A part created later needs a new layout of the whole graph.
const news = document.getElementById("news");
news.addEventListener("click", () => location.reload());
follow({ run }, (events) => {
  for (const event of events) {
    const part = model.byKey.get(keyOf(event.entity_type, event.entity_id));
    if (!part && event.kind === "created" && looks[event.entity_type]) news.classList.remove("hidden");
    model.note(part, Date.parse(event.timestamp) / 1000, event.to_state);
  }
  showSoon();
}, () => location.reload());
