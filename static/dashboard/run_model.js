// A run in memory: lines of work with their tries, what they depend on, and the states each try has been in.
// Any past moment is looked up in the states of each try, so nothing is replayed.
export const keyOf = (type, id) => `${type} ${id}`;
const natural = new Intl.Collator(undefined, { numeric: true }); // one for all: creating it takes longer than comparing
export const byName = (one, other) => natural.compare(one.newest.id, other.newest.id);
const FINAL = new Set(["done", "failed", "ended"]);

// One entity. `times` and `states` are its journal, in order.
class Part {
  constructor(type, id) {
    Object.assign(this, { type, id, key: keyOf(type, id), times: [], states: [], line: null });
  }

  stateAt(until) {
    for (let place = this.times.length - 1; place >= 0; place -= 1) if (this.times[place] <= until) return this.states[place];
    return undefined;
  }
}

// The tries of one piece of work, such as build and build:2; for a workstream also the lines of its parts.
class Line {
  constructor(first) {
    Object.assign(this, { type: first.type, tries: [], parent: null, members: [], before: new Set(), after: new Set() });
  }

  get newest() { return this.tries.at(-1); }

  // The newest try that existed at this time.
  tryAt(until) {
    for (let place = this.tries.length - 1; place > 0; place -= 1) if (this.tries[place].times[0] <= until) return this.tries[place];
    return this.tries[0];
  }

  stateAt(until) { return this.tryAt(until).stateAt(until); }

  get startedAt() { return this.tries[0].times[0] ?? Infinity; }
}

export class RunModel {
  constructor(run, looks, drawn) {
    this.looks = looks;
    this.parts = drawn.ids.map((id, place) => new Part(drawn.types[drawn.kinds[place]], id));
    this.run = new Part("run", run);
    this.byKey = new Map([...this.parts, this.run].map((part) => [part.key, part]));
    this.first = Infinity;
    this.position = 0;
    this.lines = [];
    this.joinTries(drawn.retry_of);
    this.nest(drawn.parents);
    this.link(drawn.edges);
    this.runLine = new Line(this.run);
    this.runLine.tries.push(this.run);
    this.run.line = this.runLine;
  }

  joinTries(retryOf) {
    const next = new Map(retryOf.map((old, place) => [old, place]));
    for (const [place, old] of retryOf.entries()) {
      if (old >= 0) continue;
      const line = new Line(this.parts[place]);
      for (let each = place; each !== undefined; each = next.get(each)) {
        line.tries.push(this.parts[each]);
        this.parts[each].line = line;
      }
      this.lines.push(line);
    }
  }

  // The parts of a retried workstream belong to its line.
  nest(parents) {
    const places = new Map(this.parts.map((part, place) => [part, place]));
    for (const line of this.lines) {
      line.parent = this.parts[parents[places.get(line.newest)]]?.line ?? null;
      line.parent?.members.push(line);
    }
  }

  link(edges) {
    for (let place = 0; place < edges.length; place += 2) {
      const [from, to] = [this.parts[edges[place]].line, this.parts[edges[place + 1]].line];
      if (from === to) continue;
      from.after.add(to);
      to.before.add(from);
    }
  }

  // A page of the journal, as `encode_journal` writes it.
  append({ parts, states, events, position }) {
    const found = parts.map((key) => this.byKey.get(key));
    for (let place = 0, at = 0; place < events.length; place += 3) {
      at += events[place + 2] / 1000;
      this.note(found[events[place]], at, states[events[place + 1]]);
    }
    this.position = Math.max(this.position, position);
  }

  note(part, at, state) {
    this.first = Math.min(this.first, at);
    this.last = Math.max(this.last ?? at, at);
    if (!part || part.states.at(-1) === state) return;
    part.times.push(at);
    part.states.push(state);
  }

  look(type, state) {
    return this.looks[type]?.states[state] ?? { tone: "ended", word: state, shade: 0, waits: false };
  }

  isFinal(type, state) { return FINAL.has(this.look(type, state).tone); }

  hasFailed(line, until = Infinity) {
    const state = line.stateAt(until);
    return state !== undefined && this.look(line.type, state).tone === "failed";
  }

  get isUnderWay() {
    const state = this.run.states.at(-1);
    return state !== undefined && !this.isFinal("run", state);
  }

  // From the first event to the last, or to now while the run is active.
  range(now = Date.now() / 1000) {
    const first = Number.isFinite(this.first) ? this.first : now;
    const last = Math.max(this.last ?? first, first + 1);
    return { first, last: this.isUnderWay ? Math.max(last, now) : last };
  }

  // Each stay of a try in a state, with its end; a final state has none.
  *stays(part, last) {
    for (let place = 0; place < part.times.length; place += 1) {
      const [from, state] = [part.times[place], part.states[place]];
      const to = part.times[place + 1] ?? (this.isFinal(part.type, state) ? from : Math.max(from, last));
      yield { from, to, state, look: this.look(part.type, state) };
    }
  }

  // How many lines of a type are in each tone.
  count(lines, until) {
    const counts = new Map();
    for (const line of lines) {
      const state = line.stateAt(until);
      const tone = state === undefined ? "faded" : this.look(line.type, state).tone;
      counts.set(tone, (counts.get(tone) ?? 0) + 1);
    }
    return counts;
  }

  // Seconds of work of a line until it finished or until now; null if it has not started.
  worked(line, last) {
    let seconds = 0, hasStarted = false;
    for (const part of line.tries) for (const { from, to, look, state } of this.stays(part, last)) {
      if (look.waits || this.isFinal(part.type, state)) continue;
      hasStarted = true;
      seconds += to - from;
    }
    return hasStarted ? seconds : null;
  }
}
