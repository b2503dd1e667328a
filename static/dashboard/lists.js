// Lists that follow the server without jumping: known rows change in place, and new ones wait behind "+N new".
// So does the page of one incident, section by section.
import { watch } from "./board.js";
import { connection } from "./freshness.js";
import { numberAt } from "./tiles.js";
import { updateTimes } from "./times.js";

const INTERVAL = 30_000; // for changes that the board does not show, such as those of other operators
const SPREAD = 2_000; // the open pages do not all request the list at once
const TRIGGERS = {
  incidents: (board) => JSON.stringify(board.incidents),
  alerts: (board) => JSON.stringify(board.alerts),
  system: (board) => JSON.stringify(board.alerts),
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
const isInUse = (each) => each.matches(":hover, :focus-within");

// A section changes unless it is in use, has typed text, or would move what is in use below it.
const sectionsOf = (root) => [...root.querySelectorAll("[data-section]")];
const isChosen = ({ options }) => [...options].some((each) => each.selected !== each.defaultSelected);
const isTyped = (field) => field.options ? isChosen(field) : field.value !== field.defaultValue;
const isHeld = (section) => isInUse(section) || [...section.querySelectorAll("input, textarea, select")].some(isTyped);

function isAboveUse(section) {
  for (let next = section.nextElementSibling; next; next = next.nextElementSibling) if (isInUse(next)) return true;
  return false;
}

function change(section, latest) {
  if (!latest || isHeld(section) || essence(section) === essence(latest)) return;
  const height = section.offsetHeight;
  updateTimes(latest);
  section.replaceWith(latest);
  if (latest.offsetHeight !== height && isAboveUse(latest)) return latest.replaceWith(section);
  htmx.process(latest);
}

async function refresh() {
  const answer = await fetchList();
  const sections = new Map(sectionsOf(answer).map((each) => [each.dataset.section, each]));
  for (const each of sectionsOf(list)) change(each, sections.get(each.dataset.section));
  const latest = rowsOf(answer);
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
  const rows = (root) => root.querySelector("[data-live-rows]") ?? root;
  const place = rows(list);
  place.replaceChildren(...rows(await fetchList()).childNodes);
  htmx.process(place);
  updateTimes(place);
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
  setInterval(later, list.dataset.liveEvery ? 1_000 * list.dataset.liveEvery : INTERVAL);
  news.addEventListener("click", () => replace().catch(() => location.reload()));
}
