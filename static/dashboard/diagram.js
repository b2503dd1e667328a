// A state diagram, laid out by dagre and drawn as SVG.
import { Graph, layout } from "../vendor/dagre.esm.js";
import { svg, use } from "./marks.js";

const HEIGHT = 40, LETTER = 7.1, PHONE = 480, SMALLEST = 0.65;
const WIDE = { rankdir: "LR", nodesep: 22, ranksep: 44 }, NARROW = { rankdir: "TB", nodesep: 18, ranksep: 40 };
const NARROWEST = { rankdir: "TB", nodesep: 8, edgesep: 6, ranksep: 34 };

function widthOf(node) {
  return Math.max(84, node.word.length * LETTER + 52 + String(node.count ?? "").length * 8);
}

function curve(points) {
  const [first, ...rest] = points;
  let path = `M${first.x},${first.y}`;
  for (let place = 0; place < rest.length - 1; place += 1) {
    const middle = { x: (rest[place].x + rest[place + 1].x) / 2, y: (rest[place].y + rest[place + 1].y) / 2 };
    path += `Q${rest[place].x},${rest[place].y} ${middle.x},${middle.y}`;
  }
  const last = rest.at(-1);
  return `${path}L${last.x},${last.y}`;
}

// The point of the curve nearest to the label position, which dagre places beside the curve.
function onCurve(points, { x, y }) {
  const place = points.findIndex((point) => point.x === x && point.y === y);
  if (place < 1 || place > points.length - 2) return { x, y };
  const between = (one, other) => ({ x: (one.x + other.x) / 2, y: (one.y + other.y) / 2 });
  const start = place === 1 ? points[0] : between(points[place - 1], points[place]);
  return between(between(start, between(points[place], points[place + 1])), points[place]);
}

function head(points) {
  const tip = points.at(-1), before = points.at(-2);
  const angle = (Math.atan2(tip.y - before.y, tip.x - before.x) * 180) / Math.PI;
  return svg("path", { class: "head", d: "M0,0 L-8,-3.6 L-8,3.6 Z", transform: `translate(${tip.x},${tip.y}) rotate(${angle})` });
}

function drawEdge(points, edge, label) {
  const classes = ["edge", edge.taken && "taken", edge.forced && "forced"].filter(Boolean).join(" ");
  const group = svg("g", { class: classes, "data-edge": `${edge.from}>${edge.to}` }, svg("path", { d: curve(points) }), head(points));
  const title = svg("title");
  title.textContent = `${edge.from} → ${edge.to}: ${edge.label}${edge.rate ? `, ${edge.rate}/min` : ""}`;
  group.prepend(title);
  if (label.text) {
    const { x, y } = onCurve(points, label);
    const text = svg("text", { x, y: y + 3, "text-anchor": "middle" });
    text.textContent = label.text;
    if (edge.rate) text.classList.add("rate");
    group.append(text);
  }
  return group;
}

function drawNode(place, node) {
  const left = place.x - place.width / 2, top = place.y - HEIGHT / 2;
  const classes = ["node", node.tone, node.final && "final", node.here && "here"].filter(Boolean).join(" ");
  const group = svg(node.href ? "a" : "g", { class: classes, href: node.href || null, "data-node": node.id });
  const name = svg("text", { class: "name", x: left + 30, y: place.y + (node.dwell ? -1 : 4) });
  name.textContent = node.word;
  group.append(svg("rect", { x: left, y: top, width: place.width, height: HEIGHT, rx: 8 }), use(node.tone, left + 11, place.y - 6.5, 13), name);
  if (node.dwell) {
    const dwell = svg("text", { class: "dwell", x: left + 30, y: place.y + 12 });
    dwell.textContent = node.dwell;
    group.append(dwell);
  }
  if (node.count !== null && node.count !== undefined) {
    const count = svg("text", { class: "count live-value", x: place.x + place.width / 2 - 10, y: place.y + 4, "text-anchor": "end" });
    count.textContent = node.count;
    group.append(count);
  }
  return group;
}

// An edge that is not declared has no place in the layout, so that the states keep theirs: it is a bow from border to border.
const BOW = 0.22;
function placeOver(source, target, { top, width, height }) {
  const [across, down] = [target.x - source.x, target.y - source.y];
  const within = (value, least, most) => Math.min(Math.max(value, least), most);
  const middle = {
    x: within((source.x + target.x) / 2 + BOW * down, 8, width - 8),
    y: within((source.y + target.y) / 2 - BOW * across, top + 8, top + height - 8),
  };
  return { points: [onBorder(source, middle), middle, onBorder(target, middle)], ...middle };
}

function onBorder(node, towards) {
  const [across, down] = [towards.x - node.x, towards.y - node.y];
  const part = Math.min(node.width / 2 / Math.abs(across), HEIGHT / 2 / Math.abs(down));
  return { x: node.x + part * across, y: node.y + part * down };
}

// Edges may extend beyond the states, and dagre's size covers only the states.
function extent(graph) {
  const points = graph.edges().flatMap((edge) => graph.edge(edge).points);
  const top = Math.min(0, ...points.map((point) => point.y - 8));
  const bottom = Math.max(graph.graph().height, ...points.map((point) => point.y + 8));
  const width = Math.max(graph.graph().width, ...points.map((point) => point.x + 8));
  return { top, width, height: bottom - top };
}

export function draw(box, drawing) {
  const graph = new Graph({ multigraph: true });
  const isPhone = box.clientWidth < PHONE;
  graph.setGraph({ ...(isPhone ? NARROWEST : box.clientWidth < 620 ? NARROW : WIDE), marginx: 6, marginy: 6 });
  graph.setDefaultEdgeLabel(() => ({}));
  for (const node of drawing.nodes) graph.setNode(node.id, { width: widthOf(node), height: HEIGHT });
  // Room for every rate, even zero ones, so that states keep their places when rates change; on a phone only a place.
  const isCounted = drawing.nodes.some((node) => typeof node.count === "number");
  for (const edge of drawing.edges.filter((each) => each.declared)) graph.setEdge(edge.from, edge.to, { width: isCounted ? (isPhone ? 1 : 34) : 0, height: 12, labelpos: "c", minlen: 1 });
  layout(graph);
  const size = extent(graph), { top, width, height } = size;
  const picture = svg("svg", { viewBox: `0 ${top} ${width} ${height}`, width, height });
  for (const edge of drawing.edges.toSorted((one, other) => other.declared - one.declared)) {
    const placed = edge.declared ? graph.edge(edge.from, edge.to) : placeOver(graph.node(edge.from), graph.node(edge.to), size);
    picture.append(drawEdge(placed.points, edge, { x: placed.x, y: placed.y, text: edge.rate ? `${edge.rate}/min` : "" }));
  }
  for (const node of drawing.nodes) picture.append(drawNode(graph.node(node.id), node));
  box.replaceChildren(picture);
  // Full size, or shrunk to fit while it stays readable; otherwise it scrolls. A phone shows all of it, and can zoom.
  const fitting = (box.clientWidth - 28) / width;
  const scale = Math.min(1, isPhone ? fitting : Math.max(fitting, SMALLEST));
  picture.setAttribute("width", width * scale);
  picture.setAttribute("height", height * scale);
  const begin = graph.node(drawing.nodes.find((node) => node.here)?.id ?? drawing.nodes[0].id);
  box.scrollLeft = begin.x * scale - box.clientWidth / 2;
}

export function drawAll(drawing) {
  for (const box of document.querySelectorAll("[data-drawing]")) draw(box, drawing);
}
