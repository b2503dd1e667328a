// The log of a task: new lines arrive over an event stream. They never move what the user points at or reads: the
// view follows the end only while it is there and the pointer is elsewhere.
const WINDOW = 10_000;
const AT_END = 40; // pixels

export function followLog() {
  const root = document.getElementById("log");
  if (!root) return;
  const list = root.querySelector(".log");
  const state = root.querySelector("[data-log-state]");
  const button = root.querySelector("[data-log-follow]");
  const search = root.querySelector('input[name="q"]');
  let isPaused = false, isPointed = false, follows = true, unseen = 0, waiting = [], frame = 0;

  const isAtEnd = () => list.scrollHeight - list.scrollTop - list.clientHeight < AT_END;
  const matches = (item) => item.textContent.toLowerCase().includes(search.value.toLowerCase());
  const scrollToEnd = () => { list.scrollTop = list.scrollHeight; };

  function makeItem(line) {
    const item = document.createElement("li");
    item.dataset.number = line.number;
    item.className = line.stream;
    const parts = [["number", line.number], ...(line.stream === "stdout" ? [] : [["mark", line.stream]]), ["text", line.text]];
    for (const [name, text] of parts) {
      const part = document.createElement("span");
      part.className = name;
      part.textContent = text;
      if (name === "text") part.title = line.at;
      item.append(part);
    }
    item.hidden = !matches(item);
    return item;
  }

  function show() {
    frame = 0;
    list.append(...waiting.map(makeItem));
    if (follows && !isPaused && !isPointed) {
      while (list.childElementCount > WINDOW) list.firstElementChild.remove();
      scrollToEnd();
    } else unseen += waiting.length;
    waiting = [];
    root.querySelector(".empty")?.remove();
    label();
  }

  function label() {
    if (isAtEnd()) unseen = 0;
    button.textContent = isPaused ? (unseen ? `Follow (${unseen} new)` : "Follow") : unseen ? `${unseen} new lines` : "Pause";
    button.setAttribute("aria-pressed", String(!isPaused));
  }

  function take(line) {
    waiting.push(line);
    // Timers run in hidden pages as well, where no frame is drawn.
    frame ||= setTimeout(show, 50);
  }

  function open() {
    const query = new URLSearchParams({ after: root.dataset.after });
    if (root.dataset.attempt) query.set("attempt", root.dataset.attempt);
    const source = new EventSource(`${root.dataset.log}?${query}`);
    const say = (text) => { if (state.textContent !== text) state.textContent = text; };
    source.addEventListener("open", () => say("Live"));
    source.addEventListener("message", (message) => take(JSON.parse(message.data)));
    source.addEventListener("end", () => { source.close(); say("Attempt ended"); button.classList.add("hidden"); });
    source.addEventListener("error", () => {
      say(source.readyState === EventSource.CLOSED ? "Not live. Reload for newer lines" : "Reconnecting…");
    });
    addEventListener("pagehide", () => source.close());
    button.classList.remove("hidden");
  }

  async function loadEarlier(event) {
    const link = event.currentTarget;
    event.preventDefault();
    const answer = await fetch(link.href, { headers: { "HX-Request": "true" }, redirect: "error" });
    if (!answer.ok) return location.assign(link.href);
    const part = new DOMParser().parseFromString(await answer.text(), "text/html");
    const before = list.scrollHeight - list.scrollTop;
    list.prepend(...part.querySelectorAll(".log > li"));
    list.scrollTop = list.scrollHeight - before; // what the user reads stays where it is
    const next = part.querySelector("[data-log-earlier]");
    if (next) link.href = next.href;
    else link.remove();
  }

  list.addEventListener("pointerenter", () => { isPointed = true; });
  list.addEventListener("pointerleave", () => { isPointed = false; });
  // Only a scroll ends following: a font that arrives or a narrower window wraps the lines again and moves the end.
  list.addEventListener("scroll", () => { follows = isAtEnd(); label(); }, { passive: true });
  button.addEventListener("click", () => {
    isPaused = !isPaused && !unseen;
    if (!isPaused) scrollToEnd();
    label();
  });
  search.addEventListener("input", () => {
    for (const item of list.children) item.hidden = !matches(item);
    scrollToEnd();
  });
  root.querySelector("[data-log-earlier]")?.addEventListener("click", loadEarlier);
  scrollToEnd();
  if (root.dataset.live) open();
}
