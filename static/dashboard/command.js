// The command bar: a dialog with a combobox whose options the server lists. `/` and Ctrl-K open it on every page.
import { key } from "./keys.js";

const MOST_RECENT = 8;
const dialog = document.getElementById("command");
const input = dialog?.querySelector("input");
const results = document.getElementById("command-results");
const recent = `recent-entities:${dialog?.dataset.user}`; // in this browser, for each account

const options = () => [...results.querySelectorAll("[role=option]")];
const chosen = () => options().findIndex((each) => each.getAttribute("aria-selected") === "true");

function mark(place) {
  const all = options();
  if (!all.length) return;
  const wanted = all[(place + all.length) % all.length];
  for (const each of all) each.setAttribute("aria-selected", String(each === wanted));
  input.setAttribute("aria-activedescendant", wanted.id);
  wanted.scrollIntoView({ block: "nearest" });
}

function readRecent() {
  try { return JSON.parse(localStorage.getItem(recent)) ?? []; } catch { return []; }
}

// The pages of entities, the last one first.
function remember() {
  const { machine, entity } = document.body.dataset;
  if (!machine || !entity) return;
  const here = { title: entity, kind: machine.replaceAll("_", " "), url: location.pathname };
  localStorage.setItem(recent, JSON.stringify([here, ...readRecent().filter((each) => each.url !== here.url)].slice(0, MOST_RECENT)));
}

function showRecent() {
  const list = document.createElement("div");
  list.id = "command-options";
  list.role = "listbox";
  list.ariaLabel = "Recent";
  list.append(...readRecent().map(({ title, kind, url }, place) => {
    const link = document.createElement("a");
    link.role = "option";
    link.tabIndex = -1;
    link.id = `command-recent-${place}`;
    link.href = new URL(url, location.origin).pathname;
    const name = document.createElement("span"), about = document.createElement("span");
    name.className = "id";
    name.textContent = title;
    about.className = "small muted";
    about.textContent = kind;
    link.append(name, " ", about);
    return link;
  }));
  results.replaceChildren(list);
}

function refresh() {
  input.removeAttribute("aria-activedescendant");
  if (options().length) mark(0);
}

function open() {
  if (document.querySelector("dialog[open]")) return;
  input.value = "";
  showRecent();
  dialog.showModal();
  input.focus();
  refresh();
}

function enable() {
  key("/", "search everything", open);
  document.addEventListener("keydown", (event) => {
    if (!(event.ctrlKey || event.metaKey) || event.altKey || event.shiftKey || event.key.toLowerCase() !== "k") return;
    event.preventDefault();
    open();
  });
  document.getElementById("command-open").addEventListener("click", open);
  input.addEventListener("keydown", (event) => {
    const steps = { ArrowDown: 1, ArrowUp: -1 };
    if (event.key in steps) { event.preventDefault(); mark(chosen() + steps[event.key]); }
    if (event.key === "Enter") { event.preventDefault(); follow(event); }
  });
  // The options of the words that are in the field, not of those before.
  let isWaiting = false;
  input.addEventListener("input", () => { isWaiting = input.value.trim() !== ""; if (!isWaiting) { showRecent(); refresh(); } });
  let enterAgain = false;
  function follow() {
    if (isWaiting) { enterAgain = true; return; }
    options()[Math.max(chosen(), 0)]?.click();
  }
  results.addEventListener("htmx:afterSwap", () => {
    isWaiting = false;
    if (!input.value.trim()) showRecent();
    refresh();
    if (enterAgain) { enterAgain = false; follow(); }
  });
  dialog.addEventListener("click", (event) => { if (event.target === dialog) dialog.close(); });
}

export function enableCommandBar() {
  if (!dialog) return;
  enable();
  remember();
}
