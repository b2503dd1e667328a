// The critical path: the chain of dependent work that takes longest. Work that is not finished counts with the mean
// duration of what is, or with its time so far if that is longer.
import { sortByDependency } from "./layers.js";

export function findCriticalPath(model, last) {
  const works = model.lines.filter((line) => line.type !== "workstream");
  const expected = meanDuration(model, works, last);
  const seconds = (line) => {
    const worked = model.worked(line, last);
    const state = line.newest.states.at(-1);
    return worked !== null && state !== undefined && model.isFinal(line.type, state) ? worked : Math.max(worked ?? 0, expected);
  };
  const { before, lineOf } = buildNetwork(model, works);
  const [lengths, from] = [new Map(), new Map()];
  let end = null;
  for (const key of sortByDependency(before)) {
    let best = null;
    for (const each of before.get(key)) if (best === null || lengths.get(each) > lengths.get(best)) best = each;
    lengths.set(key, (best === null ? 0 : lengths.get(best)) + (lineOf.has(key) ? seconds(lineOf.get(key)) : 0));
    from.set(key, best);
    if (end === null || lengths.get(key) > lengths.get(end)) end = key;
  }
  const path = new Set();
  for (let key = end; key !== null && key !== undefined; key = from.get(key)) if (lineOf.has(key)) path.add(lineOf.get(key));
  return path;
}

function meanDuration(model, works, last) {
  const known = works.filter((line) => model.isFinal(line.type, line.newest.states.at(-1))).map((line) => model.worked(line, last)).filter((each) => each !== null);
  return known.length ? known.reduce((sum, each) => sum + each, 0) / known.length : 1;
}

// A workstream has a start and an end, between which its parts are: otherwise each part of it would be linked with each
// part of every workstream that it depends on.
function buildNetwork(model, works) {
  const before = new Map(), lineOf = new Map();
  const start = (line) => `start ${line.newest.key}`, end = (line) => `end ${line.newest.key}`;
  for (const line of model.lines) if (line.type === "workstream") {
    before.set(start(line), []);
    before.set(end(line), [start(line)]);
  }
  for (const line of works) {
    before.set(line.newest.key, line.parent ? [start(line.parent)] : []);
    lineOf.set(line.newest.key, line);
  }
  for (const line of model.lines) {
    if (line.type === "workstream") for (const each of line.before) before.get(start(line)).push(end(each));
    else for (const each of line.before) before.get(line.newest.key).push(each.newest.key);
    if (line.type !== "workstream" && line.parent) before.get(end(line.parent)).push(line.newest.key);
  }
  return { before, lineOf };
}
