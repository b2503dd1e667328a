// The page of an entity: a new event updates the heading at once; the rest is refreshed on request.
import { drawAll } from "./diagram.js";
import { follow } from "./events.js";
import { followHeartbeats } from "./heartbeats.js";
import { followLog } from "./log.js";
import { chip, forcedMark, readJson } from "./marks.js";
import { timeElement } from "./times.js";

drawAll(readJson("drawing"));
const looks = readJson("looks");
const { machine, entity } = document.body.dataset;
const refreshHeartbeats = followHeartbeats();
followLog();

follow({ entity_type: machine, entity }, (events) => {
  const last = events.at(-1);
  if (last.sequence <= Number(document.body.dataset.version)) return;
  document.body.dataset.version = last.sequence;
  const head = document.querySelector(".title [data-chip]");
  head.replaceChildren(chip(looks[last.to_state], last.to_state, "big"));
  document.querySelector(".title [data-entered]").replaceChildren(timeElement(last.timestamp, "length"));
  if (events.some((event) => event.kind === "override") && !document.querySelector(".title .mark-forced")) head.after(forcedMark());
  document.getElementById("news").classList.remove("hidden");
  refreshHeartbeats();
}, () => location.reload());

document.getElementById("news").addEventListener("click", () => location.reload());
