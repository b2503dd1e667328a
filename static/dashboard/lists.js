// Lists that follow the server without jumping: known rows change in place, and new ones wait behind "+N new".
import { watch } from "./board.js";
import { connection } from "./freshness.js";
import { numberAt } from "./tiles.js";
import { updateTimes } from "./times.js";

const INTERVAL = 30_000; // for changes that the board does not show, such as those of other operators
const SPREAD = 2_000; // the open pages do not all request the list at once
const TRIGGERS = {
  incidents: (board) => JSON.stringify(board.incidents),
  alerts: (board) => JSON.stringify(board.alerts),
  overrides: (board) => numberAt(board, "minutes.*.overrides"),
};
const list = document.querySelector("[data-live-list]");
const news = document.querySelector("[data-news]");

// A row without what differs in every response: ages and the token of a form.
function essence(row) {
  const copy = row.cloneNode(true);
  for (const each of copy.querySelectorAll("[name=csrfmiddlewaretoken]")) each.remove();
  for (const each of copy.querySelectorAll("time")) each.replaceChildren();
  for (const each of copy.querySelectorAll("[title]")) each.removeAttribute("title");
  return copy.innerHTML;
}

async function fetchList() {
  const url = new URL(location.href);
  url.searchParams.set("part", "list");
  const answer = await fetch(url, { headers: { "HX-Request": "true" }, redirect: "error" });
  if (!answer.ok) throw new Error(answer.status);
  return new DOMParser().parseFromString(await answer.text(), "text/html").body;
}

const rowsOf = (root) => new Map([...root.querySelectorAll("tr[data-id]")].map((row) => [row.dataset.id, row]));
const isInUse = (row) => row.matches(":hover, :focus-within");

async function refresh() {
  const latest = rowsOf(await fetchList());
  const shown = rowsOf(list);
  for (const [id, row] of shown) {
    row.classList.toggle("gone", !latest.has(id));
    const other = latest.get(id);
    if (!other || isInUse(row) || essence(row) === essence(other)) continue;
    if (row.ariaSelected) other.ariaSelected = row.ariaSelected;
    row.replaceWith(other);
    htmx.process(other);
  }
  updateTimes(list);
  const fresh = [...latest.keys()].filter((id) => !shown.has(id)).length;
  news.textContent = `+${fresh} new`;
  news.classList.toggle("hidden", fresh === 0);
}

async function replace() {
  list.replaceChildren(...(await fetchList()).childNodes);
  htmx.process(list);
  updateTimes(list);
  news.classList.add("hidden");
}

export function followList() {
  if (!list) return;
  const read = TRIGGERS[list.dataset.liveList];
  let [before, timer] = [null, 0];
  const later = () => {
    timer ||= setTimeout(() => { timer = 0; if (!document.hidden && connection.isFresh) refresh().catch(() => {}); }, Math.random() * SPREAD);
  };
  watch((board) => {
    const now = read(board);
    if (before !== null && now !== before) later();
    before = now;
  });
  setInterval(later, INTERVAL);
  news.addEventListener("click", () => replace().catch(() => location.reload()));
}
