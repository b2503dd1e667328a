// The graph of a run: a box for each workstream with the counts of its tasks, opened to show its parts, and what depends
// on what. The picture scrolls in its frame; zooming changes its size.
import { arrange } from "./layers.js";
import { svg, use } from "./marks.js";
import { byName } from "./run_model.js";

const LETTER = 7.2, MARK = 34, HIGH = 28, WIDEST = 200, NAME = 26, PAD = 10;
const BOX = { width: 208, height: 58 }, CELL = { width: 16, height: 16 };
const NAMED_UP_TO = 300; // parts of one workstream that are drawn with their names; more are drawn as marks
const NARROW = 620, ROOM = 520, SMALLEST = 0.6;
const BAR_TONES = ["done", "failed", "troubled", "held", "active", "ended", "waiting", "faded"];

const shorten = (text, most) => (text.length <= most ? text : most > 3 ? `…${text.slice(1 - most)}` : "");
const text = (x, y, className, content = "") => {
  const made = svg("text", { x, y, class: className });
  made.textContent = content;
  return made;
};

export class RunGraph {
  constructor(box, model, view, address, toggled) {
    Object.assign(this, { box, model, view, address, toggled, scale: null, drawn: new Map(), renamed: [] });
    box.addEventListener("click", (event) => this.toggle(event));
    box.addEventListener("keydown", (event) => { if (["Enter", " "].includes(event.key)) this.toggle(event); });
    box.addEventListener("wheel", (event) => {
      if (!event.ctrlKey) return;
      event.preventDefault();
      this.zoom(event.deltaY < 0 ? 1.2 : 1 / 1.2);
    }, { passive: false });
  }

  toggle(event) {
    const handle = event.target.closest("[data-toggle]");
    if (!handle) return;
    event.preventDefault();
    const line = this.model.byKey.get(handle.dataset.toggle).line;
    this.view.setOpen([line], !this.view.isOpen(line));
    this.toggled();
    this.box.querySelector(`[data-toggle="${CSS.escape(handle.dataset.toggle)}"]`)?.focus({ preventScroll: true });
  }

  // Places and draws everything; `show` then fills in the states.
  draw() {
    const { model, view, box } = this;
    this.drawn.clear();
    if (!model.lines.length) return box.replaceChildren("This run has no parts yet. They appear here once they are created.");
    const isNarrow = box.clientWidth < NARROW;
    const across = isNarrow ? box.clientWidth - 26 : ROOM;
    const top = model.lines.filter((line) => !line.parent);
    const insides = new Map(top.filter((line) => view.isOpen(line)).map((line) => [line, this.arrangeInside(line, isNarrow, across)]));
    const sizes = new Map(top.map((line) => [line, this.sizeOf(line, insides.get(line), isNarrow ? across : Infinity)]));
    const placed = arrange(sizes, this.edgesBetween(), { isDown: isNarrow, room: across });
    const picture = svg("svg", { viewBox: `-1 -1 ${placed.width + 2} ${placed.height + 2}` });
    // The edges are above the boxes of open workstreams and below the parts.
    const [boxes, edges, parts] = [svg("g"), svg("g", { class: "edge" }), svg("g")];
    this.edges = edges;
    picture.append(boxes, edges, parts);
    this.places = new Map();
    for (const [line, place] of placed.places) {
      this.places.set(line, place);
      if (insides.has(line)) this.drawOpen(boxes, parts, line, place, insides.get(line));
      else parts.append(line.type === "workstream" ? this.drawClosed(line, place) : this.drawPart(line, place));
    }
    this.drawEdges(isNarrow);
    this.size = { width: placed.width + 2, height: placed.height + 2 };
    this.picture = picture;
    box.replaceChildren(picture);
    this.setScale(this.scale ?? Math.min(1, Math.max(SMALLEST, (box.clientWidth - 26) / this.size.width)));
  }

  arrangeInside(line, isNarrow, across) {
    const named = line.members.length <= NAMED_UP_TO;
    const sorted = line.members.toSorted(byName);
    const sizes = new Map(sorted.map((each) => [each, named ? { width: this.widthOf(each, across), height: HIGH } : CELL]));
    const edges = line.members.flatMap((each) => [...each.before].filter((other) => other.parent === line).map((other) => [other, each]));
    return { ...arrange(sizes, edges, { isDown: isNarrow, room: across - 2 * PAD }), edges: named ? edges : [] };
  }

  widthOf(line, across) {
    return Math.min(WIDEST, across - 2 * PAD, Math.max(70, line.newest.id.length * LETTER + MARK));
  }

  sizeOf(line, inside, most) {
    if (inside) return { width: Math.min(most, Math.max(BOX.width, inside.width + 2 * PAD)), height: inside.height + NAME + 2 * PAD };
    return line.type === "workstream" ? { ...BOX, width: Math.min(most, BOX.width) } : { width: this.widthOf(line, Math.min(most, 1e4)), height: HIGH };
  }

  // Between workstreams, and between parts of different workstreams; each pair once.
  edgesBetween() {
    const found = new Map();
    for (const line of this.model.lines) for (const other of line.before) {
      const [from, to] = [other.parent ?? other, line.parent ?? line];
      if (from !== to) found.set(`${from.newest.key} ${to.newest.key}`, [from, to]);
    }
    return (this.between = [...found.values()]);
  }

  drawOpen(boxes, parts, line, place, inside) {
    const group = svg("g", { class: "cluster" }, svg("title"), svg("rect", { x: place.x, y: place.y, width: place.width, height: place.height, rx: 8 }), use("waiting", place.x + 10, place.y + 9, 11));
    const name = text(place.x + 26, place.y + 18, "");
    name.append(svg("tspan", { class: "state" }), svg("tspan", { class: "ws" }));
    group.append(name, this.drawToggle(line, place, true));
    boxes.append(this.keep(line, group));
    for (const [member, at] of inside.places) {
      const moved = { ...at, x: at.x + place.x + PAD, y: at.y + place.y + NAME + PAD };
      this.places.set(member, moved);
      parts.append(at.width > CELL.width ? this.drawPart(member, moved) : this.drawCell(member, moved));
    }
    this.between = this.between.concat(inside.edges);
  }

  drawClosed(line, place) {
    const { x, y, width, height } = place;
    const name = text(x + 26, y + 19, "");
    name.append(svg("tspan", { class: "ws" }));
    const group = svg("g", { class: "cluster closed" }, svg("title"), svg("rect", { x, y, width, height, rx: 8 }), use("waiting", x + 10, y + 9, 12), name,
      text(x + 10, y + 36, "counts"), svg("svg", { class: "share", x: x + 10, y: y + height - 14, width: width - 20, height: 6 }));
    if (line.members.length) group.append(this.drawToggle(line, place, false));
    return this.keep(line, group);
  }

  drawToggle(line, { x, y, width }, isOpen) {
    const handle = svg("g", { class: "toggle", "data-toggle": line.newest.key, role: "button", tabindex: 0, "aria-expanded": String(isOpen), "aria-label": `${isOpen ? "Collapse" : "Expand"} workstream ${line.newest.id}` });
    const [left, middle] = [x + width - 26, y + 15];
    handle.append(svg("rect", { x: left, y: y + 4, width: 22, height: 22, rx: 4 }), svg("path", { d: `M${left + 6},${middle}h10${isOpen ? "" : `M${left + 11},${middle - 5}v10`}` }));
    return handle;
  }

  drawPart(line, { x, y, width, height }) {
    const name = text(x + 24, y + height / 2 + 4, "name");
    const made = svg("a", { class: "node" }, svg("title"), svg("rect", { x, y, width, height, rx: 6 }), use("waiting", x + 8, y + height / 2 - 5.5, 11), name);
    name.dataset.most = Math.floor((width - MARK) / LETTER);
    return this.keep(line, made);
  }

  drawCell(line, { x, y, width, height }) {
    return this.keep(line, svg("a", { class: "node cell", tabindex: -1 }, svg("title"), svg("rect", { x, y, width, height, rx: 3 }), use("waiting", x + 3, y + 3, width - 6)));
  }

  keep(line, group) {
    this.drawn.set(line, group);
    return group;
  }

  // One path for all edges: thousands of elements would take longer to draw than the parts.
  drawEdges(isDown) {
    const join = ([from, to]) => {
      const [one, other] = [this.places.get(from), this.places.get(to)];
      if (!one || !other) return "";
      const [a, b, c, d] = isDown ? [one.x + one.width / 2, one.y + one.height, other.x + other.width / 2, other.y] : [one.x + one.width, one.y + one.height / 2, other.x, other.y + other.height / 2];
      const bend = Math.max(16, Math.abs(isDown ? d - b : c - a) / 2);
      return isDown ? `M${a},${b}C${a},${b + bend} ${c},${d - bend} ${c},${d}` : `M${a},${b}C${a + bend},${b} ${c - bend},${d} ${c},${d}`;
    };
    const path = svg("path", { d: this.between.map(join).join(""), "data-edges": this.between.length });
    this.edges.replaceChildren(path);
    const critical = this.view.only === "critical" ? this.between.filter((pair) => pair.every((line) => this.holdsPath(line))) : [];
    if (critical.length) this.edges.append(svg("path", { class: "critical", d: critical.map(join).join("") }));
  }

  holdsPath(line) {
    return this.view.path.has(line) || line.members.some((each) => this.view.path.has(each));
  }

  // The state of everything drawn, at the moment of the view.
  show() {
    const { model, view } = this;
    for (const [line, group] of this.drawn) {
      const part = line.tryAt(view.until), state = part.stateAt(view.until);
      const { tone, word } = state === undefined ? { tone: "faded", word: "not created yet" } : model.look(part.type, state);
      const kind = group.matches(".cell") ? "node cell" : group.matches(".closed") ? "cluster closed" : group.matches(".cluster") ? "cluster" : "node";
      const isDim = view.isFiltered && !view.matches(line) && !line.members.some((each) => view.matches(each));
      group.setAttribute("class", `${kind} ${tone}${isDim ? " dim" : ""}`);
      group.dataset.part = part.key;
      group.dataset.state = state ?? "";
      const shape = group.querySelector("use");
      shape.setAttribute("href", shape.getAttribute("href").replace(/#.*/, `#${state ? tone : "waiting"}`));
      group.querySelector("title").textContent = `${part.key}: ${word}`;
      if (kind.startsWith("node")) this.showPart(group, part);
      else this.showWorkstream(group, line, part, word);
    }
    this.squeeze();
  }

  showPart(group, part) {
    group.setAttribute("href", this.address(part));
    const name = group.querySelector(".name"), shown = name && shorten(part.id, Number(name.dataset.most));
    if (!name || name.textContent === shown) return;
    name.textContent = shown;
    this.renamed.push(name);
  }

  // The width of a text is known once it is drawn; text that is too wide is condensed. All widths are read before any
  // is set, so that the browser lays out the picture once.
  squeeze() {
    const widths = this.renamed.map((name) => [name, name.getComputedTextLength(), name.parentElement.querySelector("rect").width.baseVal.value - MARK]);
    for (const [name, width, room] of widths) if (width > room) {
      name.setAttribute("textLength", room);
      name.setAttribute("lengthAdjust", "spacingAndGlyphs");
    }
    this.renamed = [];
  }

  showWorkstream(group, line, part, word) {
    const place = this.places.get(line);
    const room = Math.floor((place.width - 60) / LETTER);
    const state = group.querySelector(".state");
    if (state) state.textContent = `${word} `;
    group.querySelector(".ws").textContent = shorten(part.id, state ? room - word.length - 1 : room);
    if (!group.matches(".closed")) return;
    const tasks = line.members.filter(({ type }) => type === "task");
    const counts = this.model.count(tasks, this.view.until);
    group.querySelector(".counts").textContent = describe(word, counts, tasks.length);
    drawShare(group.querySelector(".share"), counts, tasks.length);
  }

  setScale(scale) {
    this.scale = scale;
    this.picture.setAttribute("width", this.size.width * scale);
    this.picture.setAttribute("height", this.size.height * scale);
  }

  // Keeps the middle of the frame in its place.
  zoom(factor) {
    if (!this.picture) return;
    const { box } = this;
    const middle = { x: (box.scrollLeft + box.clientWidth / 2) / this.scale, y: (box.scrollTop + box.clientHeight / 2) / this.scale };
    this.setScale(Math.min(3, Math.max(0.05, this.scale * factor)));
    box.scrollTo(middle.x * this.scale - box.clientWidth / 2, middle.y * this.scale - box.clientHeight / 2);
  }

  fit() {
    if (!this.picture) return;
    this.setScale(Math.min(1.5, (this.box.clientWidth - 26) / this.size.width, (this.box.clientHeight - 26) / this.size.height));
    this.box.scrollTo(0, 0);
  }

  // Scrolls a line into the middle of the frame.
  reveal(line) {
    const group = this.drawn.get(line);
    const place = this.places?.get(line);
    if (!group || !place) return;
    this.box.scrollTo((place.x + place.width / 2) * this.scale - this.box.clientWidth / 2, (place.y + place.height / 2) * this.scale - this.box.clientHeight / 2);
    for (const each of this.box.querySelectorAll(".found")) each.classList.remove("found");
    group.classList.add("found");
  }
}

function describe(word, counts, total) {
  const parts = [word];
  if (total) parts.push(`${counts.get("done") ?? 0}/${total} done`);
  if (counts.get("failed")) parts.push(`${counts.get("failed")} failed`);
  else if (counts.get("active")) parts.push(`${counts.get("active")} active`);
  return parts.join(" · ");
}

// The tones of the tasks as parts of one bar. A failure is never narrower than it can be seen.
const LEAST = 4;
function drawShare(bar, counts, total) {
  const width = Number(bar.getAttribute("width"));
  let start = 0;
  const shares = BAR_TONES.filter((tone) => counts.get(tone)).map((tone) => {
    const size = Math.max(tone === "failed" ? LEAST : 0, ((width - LEAST) * counts.get(tone)) / total);
    const made = svg("rect", { class: tone === "faded" ? "fill-none" : `fill-${tone}`, x: start, y: 0, width: size, height: 6 });
    start += size;
    return made;
  });
  bar.replaceChildren(...shares);
}
