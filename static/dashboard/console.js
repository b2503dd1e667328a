// What every page has: the menu, keys, times, copying, and how fresh it all is.
import { watch } from "./board.js";
import { copyFrom } from "./copying.js";
import { areOn, key, listen, switchKeys, writeHelp } from "./keys.js";
import { errorNote } from "./marks.js";
import { walkRows } from "./rows.js";
import { askInZone, tellExactly, tellTimes } from "./times.js";
import { connection } from "./freshness.js";
import { numberAt, showTallies } from "./tiles.js";

const side = document.getElementById("side");
const toggle = document.getElementById("side-toggle");
toggle?.addEventListener("click", () => {
  const isOpen = side.classList.toggle("open");
  toggle.setAttribute("aria-expanded", String(isOpen));
  if (isOpen) side.querySelector("a").focus();
});
document.addEventListener("click", (event) => {
  if (side?.classList.contains("open") && !side.contains(event.target) && !toggle.contains(event.target)) toggle.click();
  for (const menu of document.querySelectorAll("details.menu[open]")) if (!menu.contains(event.target)) menu.open = false;
  const copy = event.target.closest("[data-copy]");
  if (copy) copyFrom(copy);
});
document.addEventListener("keydown", (event) => {
  if (event.key !== "Escape") return;
  if (side?.classList.contains("open")) toggle.click();
  for (const menu of document.querySelectorAll("details.menu[open]")) { menu.open = false; menu.querySelector("summary").focus(); }
});
document.addEventListener("change", (event) => {
  if (event.target.matches("[data-autosubmit]")) event.target.form.requestSubmit();
});

document.querySelectorAll("[data-moment]").forEach(askInZone);
for (const zone of document.querySelectorAll("[data-zone]")) zone.remove();

for (const link of document.querySelectorAll("[data-nav]")) {
  if (new URL(link.href).pathname === location.pathname) link.setAttribute("aria-current", "page");
}

const help = document.getElementById("help");
const keysOn = document.getElementById("keys-on");
const openHelp = () => {
  keysOn.checked = areOn();
  writeHelp(document.getElementById("help-keys"));
  help.showModal();
};
keysOn?.addEventListener("change", () => switchKeys(keysOn.checked));
document.getElementById("help-open")?.addEventListener("click", openHelp);
key("/", "search", () => (document.querySelector("[role=search] input") ?? side.querySelector("a")).focus());
key("?", "this help", openHelp);
key("g", "to the overview", () => { location.href = "/"; });
key("s", "to what is stuck", () => { location.href = "/stuck/"; });
walkRows();
listen();

// Beside the navigation, and on pages that are made from the board's numbers but do not follow them.
const outdated = document.querySelector("[data-outdated-by]");
let first = null;
if (side?.dataset.sees) watch((board) => {
  showTallies(board);
  if (!outdated) return;
  const number = numberAt(board, outdated.dataset.outdatedBy);
  first ??= number;
  if (number !== first) outdated.classList.remove("hidden");
});
outdated?.addEventListener("click", () => location.reload());

tellTimes();
tellExactly();
setInterval(() => { if (!document.hidden && connection.isFresh) tellTimes(); }, 1000);
document.body.addEventListener("htmx:afterSwap", () => tellTimes());

// A part that could not be fetched says so in its place; what was there before is not lost by a failed refresh.
function tellFailure(target, why) {
  target.querySelector(":scope > [data-empty=error]")?.remove();
  target.prepend(errorNote("This part could not be loaded.", why));
}
document.body.addEventListener("htmx:responseError", ({ detail: { target, xhr } }) => {
  tellFailure(target, xhr.status === 403 ? "You may not see it, or your session is over: log in again." : `The server answered ${xhr.status}. It was written to its log.`);
});
document.body.addEventListener("htmx:sendError", ({ detail: { target } }) => tellFailure(target, "The server cannot be reached: try it again."));
