// j and k select rows; the selected row is in the URL, so that a link or a reload restores it.
import { key } from "./keys.js";

function rows() {
  return [...document.querySelectorAll("table[data-rows] tbody tr")];
}

function chosen() {
  return rows().findIndex((row) => row.getAttribute("aria-selected") === "true");
}

// Its id, or the last part of its first link.
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

// The hash may be malformed.
function wanted() {
  try { return decodeURIComponent(location.hash.slice(1)); } catch { return ""; }
}

export function enableRowKeys() {
  // Bound even to an empty list: a refresh may add rows.
  if (!document.querySelector("table[data-rows], #entities")) return;
  key("j", "next row", () => choose(chosen() + 1));
  key("k", "previous row", () => choose(Math.max(0, chosen() - 1)));
  if (document.querySelector("[data-acknowledge]")) key("a", "acknowledge", () => rows()[chosen()]?.querySelector("[data-acknowledge]")?.click());
  key("n", "next page", () => document.querySelector("[data-next]")?.click());
  key("x", "select row", () => rows()[chosen()]?.querySelector("input[type=checkbox]")?.click());
  const place = rows().findIndex((row) => nameOf(row) && nameOf(row) === wanted());
  if (place >= 0) choose(place);
}
