// Search and filters of a run, for its graph and its timeline together.
import { findCriticalPath } from "./critical_path.js";

const DELAY = 120;
const OPENED_UP_TO = 2_000; // parts that are drawn at once; of larger runs workstreams are opened one by one

export class Toolbar {
  constructor(model, view, graph, gantt, changed) {
    Object.assign(this, { model, view, graph, gantt, changed, timer: 0, place: -1 });
    this.field = document.getElementById("find");
    this.count = document.getElementById("found");
    this.field.value = view.find;
    this.field.addEventListener("input", () => { clearTimeout(this.timer); this.timer = setTimeout(() => this.search(), DELAY); });
    this.field.form.addEventListener("submit", (event) => { event.preventDefault(); this.search(); this.revealNext(); });
    for (const choice of document.querySelectorAll("input[name=only]")) {
      choice.checked = choice.value === view.only;
      choice.addEventListener("change", () => this.filter(choice.value));
    }
    document.getElementById("next-failure").addEventListener("click", () => this.reveal(this.gantt.revealNextFailure()));
    const expand = document.getElementById("expand");
    expand.hidden = model.lines.length > OPENED_UP_TO;
    expand.addEventListener("click", () => this.openAll(true));
    document.getElementById("collapse").addEventListener("click", () => this.openAll(false));
    for (const [name, drawing] of [["graph", graph], ["gantt", gantt]]) {
      document.getElementById(`${name}-in`).addEventListener("click", () => drawing.zoom(1.5));
      document.getElementById(`${name}-out`).addEventListener("click", () => drawing.zoom(1 / 1.5));
      document.getElementById(`${name}-fit`).addEventListener("click", () => drawing.fit());
    }
    if (view.only === "critical") view.path = findCriticalPath(model, model.range().last);
  }

  search() {
    if (this.view.find === this.field.value.trim()) return;
    this.view.find = this.field.value.trim();
    this.place = -1;
    this.apply();
  }

  filter(only) {
    this.view.only = only;
    if (only === "critical") this.view.path = findCriticalPath(this.model, this.model.range().last);
    this.apply();
  }

  apply() {
    this.view.save();
    this.graph.draw();
    this.changed();
  }

  openAll(isOpen) {
    this.view.setOpen(this.model.lines.filter(({ members }) => members.length), isOpen);
    this.apply();
  }

  // Each press of Enter goes to the next match.
  revealNext() {
    const matches = this.model.lines.filter((line) => this.view.matches(line));
    if (!this.view.find || !matches.length) return;
    this.place = (this.place + 1) % matches.length;
    this.reveal(matches[this.place]);
  }

  reveal(line) {
    if (!line) return;
    if (line.parent && !this.view.isOpen(line.parent)) {
      this.view.setOpen([line.parent], true);
      this.graph.draw();
      this.changed();
    }
    this.graph.reveal(line);
    this.gantt.reveal(line);
  }

  showCount() {
    const { view, model } = this;
    const found = view.isFiltered ? model.lines.filter((line) => view.matches(line)).length : 0;
    this.count.textContent = view.isFiltered ? `${found} of ${model.lines.length} parts` : "";
  }
}
