// What the page of a run shows: the search, the filter, the open workstreams and the moment of the replay. All of it is
// in the URL, so that a link or a reload shows the same.
const OPEN_UP_TO = 120; // parts of a run whose workstreams are drawn open at first

export class RunView {
  constructor(model) {
    const params = new URLSearchParams(location.search);
    this.model = model;
    this.find = params.get("find") ?? "";
    this.only = ["failed", "critical"].includes(params.get("only")) ? params.get("only") : "";
    const at = Date.parse(params.get("at") ?? "") / 1000;
    this.at = Number.isFinite(at) ? at : null; // null while the page follows the run
    this.opensAll = model.lines.length <= OPEN_UP_TO;
    this.open = params.has("open") ? new Set(params.get("open").split(",").filter(Boolean)) : null;
    this.path = new Set(); // the critical path, once it is asked for
  }

  get until() { return this.at ?? Infinity; }

  get isFiltered() { return Boolean(this.find || this.only); }

  isOpen(line) {
    return line.members.length > 0 && (this.open ? line.tries.some(({ id }) => this.open.has(id)) : this.opensAll);
  }

  setOpen(lines, isOpen) {
    this.open ??= new Set(this.opensAll ? this.model.lines.filter(({ members }) => members.length).map(({ newest }) => newest.id) : []);
    for (const line of lines) {
      for (const { id } of line.tries) this.open.delete(id);
      if (isOpen) this.open.add(line.newest.id);
    }
    this.save();
  }

  matches(line) {
    if (this.find && !line.tries.some(({ id }) => id.includes(this.find))) return false;
    if (this.only === "failed") return line.tries.some((part) => this.model.look(part.type, part.stateAt(this.until)).tone === "failed");
    return this.only !== "critical" || this.path.has(line);
  }

  save() {
    const url = new URL(location.href);
    const at = this.at === null ? null : new Date(this.at * 1000).toISOString();
    const open = this.open && [...this.open].join(",");
    for (const [name, value] of Object.entries({ find: this.find, only: this.only, at, open })) {
      if (value || (name === "open" && value === "")) url.searchParams.set(name, value);
      else url.searchParams.delete(name);
    }
    history.replaceState(history.state, "", url);
  }
}
