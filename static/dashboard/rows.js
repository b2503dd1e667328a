// Rows are walked with j and k; the chosen one is in the address, so that a link and a reload find it again.
import { key } from "./keys.js";

function rows() {
  return [...document.querySelectorAll("table[data-rows] tbody tr")];
}

function chosen() {
  return rows().findIndex((row) => row.getAttribute("aria-selected") === "true");
}

// By its id, or by what its first link leads to.
function nameOf(row) {
  return row.dataset.id ?? row.querySelector("a[href]")?.pathname.split("/").at(-2) ?? "";
}

function choose(place) {
  const all = rows();
  if (!all.length) return;
  const row = all[Math.max(0, Math.min(place, all.length - 1))];
  for (const other of all) other.removeAttribute("aria-selected");
  row.setAttribute("aria-selected", "true");
  row.scrollIntoView({ block: "nearest" });
  row.querySelector("a")?.focus({ preventScroll: true });
  if (nameOf(row)) {
    const address = new URL(location.href);
    address.hash = nameOf(row);
    history.replaceState(history.state, "", address);
  }
}

// Whatever stands behind the hash of an address that somebody typed.
function wanted() {
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
}

export function walkRows() {
  // Also where there are none yet: a list that is fetched anew may have some.
  if (!document.querySelector("table[data-rows], #entities")) return;
  key("j", "next row", () => choose(chosen() + 1));
  key("k", "row before", () => choose(Math.max(0, chosen() - 1)));
  key("n", "next page", () => document.querySelector("[data-next]")?.click());
  key("x", "select the row", () => rows()[chosen()]?.querySelector("input[type=checkbox]")?.click());
  const place = rows().findIndex((row) => nameOf(row) && nameOf(row) === wanted());
  if (place >= 0) choose(place);
}
