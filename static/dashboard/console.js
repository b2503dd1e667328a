// Common to every page: menu, keyboard shortcuts, times, copy buttons, freshness.
import { watch } from "./board.js";
import { enableCommandBar } from "./command.js";
import { copyFrom } from "./copying.js";
import { areOn, key, listen, switchKeys, writeHelp } from "./keys.js";
import { errorNote } from "./marks.js";
import { followList } from "./lists.js";
import { enableRowKeys } from "./rows.js";
import { useLocalZone, showExactTimes, updateTimes } from "./times.js";
import { connection } from "./freshness.js";
import { showTallies } from "./tiles.js";

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

document.querySelectorAll("[data-moment]").forEach(useLocalZone);
for (const zone of document.querySelectorAll("[data-zone]")) zone.remove();

for (const link of document.querySelectorAll("[data-nav]")) {
  const { pathname } = new URL(link.href);
  const isHere = pathname === "/" ? location.pathname === "/" : location.pathname.startsWith(pathname);
  if (isHere) link.setAttribute("aria-current", "page");
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
enableCommandBar();
const search = document.querySelector("main [role=search] input");
if (search) key("f", "search this list", () => search.focus());
key("?", "show shortcuts", openHelp);
key("g", "go to overview", () => { location.href = "/"; });
key("i", "go to incidents", () => { location.href = "/incidents/"; });
enableRowKeys();
listen();

// Counts beside the navigation.
if (side?.dataset.hasMachines) watch(showTallies);
followList();

updateTimes();
showExactTimes();
setInterval(() => { if (!document.hidden && connection.isFresh) updateTimes(); }, 1000);
document.body.addEventListener("htmx:afterSwap", () => updateTimes());

// A fragment that fails to load shows an error in its place; the previous content stays.
function showFailure(target, why) {
  target.querySelector(":scope > [data-empty=error]")?.remove();
  target.prepend(errorNote("This section could not be loaded", why));
}
function describeFailure(xhr) {
  if (xhr.status === 403) return "Access denied, or your session has expired. Log in again.";
  if (xhr.status === 503 && xhr.getResponseHeader("Content-Type")?.startsWith("text/plain")) return xhr.responseText;
  return `The server returned status ${xhr.status} and logged the error. Try again later.`;
}
document.body.addEventListener("htmx:responseError", ({ detail: { target, xhr } }) => {
  showFailure(target, describeFailure(xhr));
});
document.body.addEventListener("htmx:sendError", ({ detail: { target } }) => showFailure(target, "The server cannot be reached. Check your connection and try again."));
