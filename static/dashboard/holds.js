// The notices of active holds on the overview and on walls, from the board.
import { element, icon } from "./marks.js";
import { timeElement } from "./times.js";

const MOST = 3; // notices; the rest of the page needs the room

function notice({ scope, created_by: by, expires_at: until, reason }) {
  const left = until ? timeElement(until, "countdown") : "until released";
  const text = element("span", "", element("strong", "", `Held: ${scope}`), ` by ${by}, `, left);
  return element("p", "", icon("held"), text, element("span", "why", reason));
}

// An expired hold disappears at once; the board follows within seconds. Returns whether the notices changed.
let shown = null;
export function showHolds(holds) {
  const place = document.querySelector("[data-holds]");
  const active = (holds ?? []).filter(({ expires_at: until }) => !until || Date.parse(until) > Date.now());
  const digest = JSON.stringify(active);
  if (!place || digest === shown) return false;
  shown = digest;
  const more = active.length > MOST ? [element("p", "", `and ${active.length - MOST} more`)] : [];
  place.replaceChildren(...active.slice(0, MOST).map(notice), ...more);
  place.hidden = active.length === 0;
  return true;
}
