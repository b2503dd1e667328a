// The worst incidents on the overview and on walls, from the board.
import { element } from "./marks.js";
import { timeElement } from "./times.js";

// Text with each `name` in backticks as a code element.
function withCode(text) {
  const parts = text.split("`");
  return parts.length % 2 ? parts.map((part, place) => (place % 2 ? element("code", "", part) : part)) : [text];
}

function line({ id, severity, cause, impact, since, owner }, isLinked) {
  const name = element(isLinked ? "a" : "span", "cause", ...withCode(cause));
  if (isLinked) name.href = `/incidents/${id}/`;
  const age = element("span", "muted since", timeElement(since, "ago"));
  return element("li", severity, element("span", `severity ${severity}`, severity), name, element("span", "impact", impact), age, element("span", "owner muted", owner ?? ""));
}

// Returns whether the list changed. It does not move under the pointer or the focus.
let shown = null;
export function showWorst({ open, worst }) {
  const place = document.querySelector("[data-worst]");
  const digest = JSON.stringify(worst);
  if (!place || digest === shown || place.matches(":hover, :focus-within")) return false;
  shown = digest;
  const { most, linked } = place.closest("[data-worst-box]").dataset;
  place.replaceChildren(...worst.slice(0, Number(most)).map((each) => line(each, linked === "yes")));
  place.closest("[data-worst-box]").hidden = worst.length === 0;
  const rest = document.querySelector("[data-worst-rest]");
  if (rest) rest.textContent = open > Number(most) ? `and ${open - Number(most)} more` : "";
  return true;
}
