// The states of each part over time. Only the rows and the time in view are drawn, so their number does not matter.
// Waiting is a thin bar and work a thick one; failures have a mark in their row, below the time axis and beside the
// rows, which no zoom hides.
import { svg, use } from "./marks.js";
import { byName } from "./run_model.js";
import { length, moment } from "./times.js";

const BESIDE = { label: 190, row: 22, text: 15, bar: 5, letters: 27 }, ABOVE = { label: 8, row: 36, text: 13, bar: 19, letters: 46 };
const NARROW = 620, AXIS = 30, RAIL = 12, BAR = 12, THIN = 4, LEAST = 2, TICK = 150, LETTER = 6.4;
const TALLEST = 0.7; // of the window
const A_DAY = 86_400, A_MOMENT = 10, MOST = 4_000;

export class RunGantt {
  constructor(box, model, view, address) {
    Object.assign(this, { box, model, view, address, factor: 1, rows: [], failures: [] });
    this.sizer = document.createElement("div");
    this.picture = svg("svg");
    this.sizer.append(this.picture);
    box.replaceChildren(this.sizer);
    let isWaiting = false;
    box.addEventListener("scroll", () => {
      if (isWaiting) return;
      isWaiting = true;
      requestAnimationFrame(() => { isWaiting = false; this.paint(); });
    });
  }

  // Lists the rows again, and draws those in view.
  draw() {
    this.rows = this.listRows();
    this.failures = this.rows.flatMap((line, number) => this.findFailures(line).map((at) => ({ number, at })));
    this.range = this.model.range();
    this.place = this.box.clientWidth < NARROW ? ABOVE : BESIDE; // on a phone the name is above its bar
    const height = this.rows.length * this.place.row + AXIS;
    this.box.style.height = `${Math.min(height, Math.max(260, innerHeight * TALLEST))}px`;
    this.sizer.style.height = `${height}px`;
    this.paint();
  }

  // The run, then each workstream before its parts, in the order in which they came.
  listRows() {
    const { model, view } = this;
    const shows = (line) => line.startedAt < Infinity && (!view.isFiltered || view.matches(line));
    const byStart = (one, other) => one.startedAt - other.startedAt || byName(one, other);
    const rows = view.isFiltered ? [] : [model.runLine];
    for (const line of model.lines.filter((each) => !each.parent).sort(byStart)) {
      const members = line.members.filter(shows).sort(byStart);
      if (members.length || shows(line)) rows.push(line, ...members);
    }
    return rows;
  }

  findFailures(line) {
    return line.tries.flatMap((part) => part.times.filter((_at, place) => this.model.look(part.type, part.states[place]).tone === "failed"));
  }

  zoom(factor) {
    const { box } = this;
    const middle = (box.scrollLeft + box.clientWidth / 2) / this.factor;
    this.factor = Math.min(MOST, Math.max(1, this.factor * factor));
    this.resize();
    box.scrollLeft = middle * this.factor - box.clientWidth / 2;
    this.paint();
  }

  fit() {
    this.factor = 1;
    this.box.scrollLeft = 0;
    this.paint();
  }

  resize() {
    this.plot = (this.box.clientWidth - this.place.label - RAIL) * this.factor;
    this.sizer.style.width = this.factor === 1 ? "" : `${this.place.label + this.plot + RAIL}px`;
  }

  x(at) {
    const { first, last } = this.range;
    return this.place.label + ((at - first) / Math.max(last - first, 0.001)) * this.plot - this.box.scrollLeft;
  }

  paint() {
    if (!this.range) return;
    this.resize();
    const { box, place, rows } = this;
    const [width, height] = [box.clientWidth, box.clientHeight];
    const from = Math.max(0, Math.floor(box.scrollTop / place.row));
    const shown = rows.slice(from, from + Math.ceil((height - AXIS) / place.row) + 1);
    const bars = shown.flatMap((line, number) => this.drawRow(line, (from + number) * place.row - box.scrollTop + place.bar, width));
    const labels = shown.map((line, number) => this.drawLabel(line, (from + number) * place.row - box.scrollTop + place.text));
    const cover = place === BESIDE ? [svg("rect", { class: "cover", width: place.label - 4, height })] : [];
    this.picture.setAttribute("width", width);
    this.picture.setAttribute("height", height);
    this.picture.replaceChildren(...this.drawGrid(width, height), ...bars, ...cover, ...labels, ...this.drawAxis(width, height), ...this.drawRail(width, height));
    this.box.dataset.rows = rows.length;
  }

  drawRow(line, top, width) {
    const now = Math.min(this.range.last, this.view.until);
    const made = [];
    for (const part of line.tries) for (const stay of this.model.stays(part, this.range.last)) {
      if (stay.from > this.view.until) break;
      const [left, right] = [this.x(stay.from), this.x(Math.min(stay.to, Math.max(now, stay.from)))];
      if (right >= 0 && left <= width) made.push(...this.drawStay(part, stay, left, right, top));
    }
    return made;
  }

  // The colour of its state, a label for hover and screen readers, and the word where it fits.
  drawStay(part, stay, left, right, top) {
    const { tone, shade, word, waits } = stay.look;
    const high = waits ? THIN : BAR;
    const width = Math.max(LEAST, right - left);
    const took = stay.to > stay.from ? `, ${waits ? "waited" : "took"} ${length(stay.to - stay.from)}` : "";
    const name = `${part.key}: ${word} from ${this.formatTime(stay.from)}${took}`;
    const title = svg("title");
    title.textContent = name;
    const start = Math.max(left, -9); // bars of a zoomed view would be wider than SVG can draw
    const made = [svg("rect", { class: `fill-${tone} shade-${shade}`, "data-waits": waits ? "yes" : null, x: start, y: top + (BAR - high) / 2, width: Math.min(width - (start - left), 1e5), height: high, rx: 2, role: "img", "aria-label": name }, title)];
    if (tone === "failed") made.push(this.drawFailure(left, top));
    const visible = right - Math.max(left, this.place.label);
    if (waits || tone === "failed" || visible < word.length * LETTER + 8) return made;
    const text = svg("text", { class: "word", x: Math.max(left, this.place.label) + 4, y: top + 9.5, "aria-hidden": "true" });
    text.textContent = word;
    return [...made, text];
  }

  drawFailure(left, top) {
    const mark = svg("g", { class: "failure", "aria-hidden": "true" }, svg("circle", { cx: left, cy: top + BAR / 2, r: 7 }), use("failed", left - 6, top, 12));
    return mark;
  }

  drawLabel(line, y) {
    const part = line.tryAt(this.view.until);
    const label = svg("text", { class: "label", x: line.parent && this.place === BESIDE ? 20 : 8, y });
    const most = this.place.letters - (line.parent ? 2 : 0);
    label.textContent = part.id.length <= most ? part.id : `…${part.id.slice(1 - most)}`;
    const title = svg("title");
    title.textContent = line.tries.map(({ key }) => key).join(", ");
    return svg("a", { href: this.address(part), class: line.type === "workstream" || line.type === "run" ? "heading" : null }, title, label);
  }

  ticks(width) {
    const { first, last } = this.range;
    const count = Math.max(2, Math.floor((width - this.place.label) / TICK));
    const at = (x) => first + ((x + this.box.scrollLeft - this.place.label) / this.plot) * (last - first);
    return Array.from({ length: count + 1 }, (_, step) => {
      const x = this.place.label + ((width - RAIL - this.place.label) * step) / count;
      return { x, at: at(x), isLast: step === count };
    });
  }

  drawGrid(width, height) {
    const until = Math.min(this.view.until, this.range.last);
    const lines = this.ticks(width).map(({ x }) => svg("line", { class: "grid", x1: x, x2: x, y1: 0, y2: height - AXIS }));
    return [...lines, svg("line", { class: "now", x1: this.x(until), x2: this.x(until), y1: 0, y2: height - AXIS })];
  }

  drawAxis(width, height) {
    const base = height - AXIS;
    const texts = this.ticks(width).map(({ x, at, isLast }) => {
      const text = svg("text", { class: "tick", x, y: height - 7, "text-anchor": isLast ? "end" : "start" });
      text.textContent = this.formatTime(at);
      return text;
    });
    const places = new Set(this.failures.filter(({ at }) => at <= this.view.until).map(({ at }) => Math.round(this.x(at) / 2) * 2));
    const marks = [...places].filter((x) => x >= this.place.label && x <= width).map((x) => svg("rect", { class: "fill-failed when", x: x - 1, y: base + 2, width: 3, height: 7 }));
    return [svg("rect", { class: "cover", y: base, width, height: AXIS }), ...marks, ...texts];
  }

  // Where in the whole list the failures are.
  drawRail(width, height) {
    const room = height - AXIS;
    const places = new Set(this.failures.filter(({ at }) => at <= this.view.until).map(({ number }) => Math.round((number / this.rows.length) * room)));
    return [...places].map((y) => svg("rect", { class: "fill-failed where", x: width - RAIL + 4, y, width: 7, height: 3 }));
  }

  // Scrolls to the next row with a failure, and from the last one to the first.
  revealNextFailure() {
    const numbers = [...new Set(this.failures.map(({ number }) => number))];
    if (!numbers.length) return null;
    const next = numbers.find((number) => number > (this.revealed ?? -1)) ?? numbers[0];
    this.revealed = next;
    this.box.scrollTop = Math.max(0, (next - 3) * this.place.row);
    this.paint();
    return this.rows[next];
  }

  reveal(line) {
    const number = this.rows.indexOf(line);
    if (number >= 0) this.box.scrollTop = Math.max(0, (number - 3) * this.place.row);
  }

  formatTime(at) {
    const span = (this.range.last - this.range.first) / this.factor;
    const tenths = span < A_MOMENT ? `.${Math.floor(at * 10) % 10}` : "";
    return moment(new Date(at * 1000), this.range.last - this.range.first > A_DAY) + tenths;
  }
}
