// The charts of trends: the values under the pointer, weekdays in the viewer's zone, and newer numbers every minute.
import { element } from "./marks.js";
import { length, moment, useLocalZone } from "./times.js";

const AGAIN = 60_000;
const place = document.querySelector("[data-trends]");

const short = (number) => (number >= 100 ? Math.round(number).toLocaleString("en") : String(Number(number.toPrecision(3))));
const write = (number, unit) => (number == null ? "no data" : unit === "seconds" ? length(number) : short(number));

// The legend, with the values of a step while one is chosen.
const legends = new WeakMap();
function showStep(figure, step) {
  const { start, step: seconds, unit, lines } = JSON.parse(figure.dataset.values);
  const readout = figure.querySelector("[data-readout]");
  if (!legends.has(figure)) legends.set(figure, [...readout.childNodes]);
  const count = lines[0].values.length;
  const bar = figure.querySelector(".under-pointer");
  const isOver = step >= 0 && step < count;
  const width = figure.querySelector("svg").viewBox.baseVal.width / count;
  bar.setAttribute("x", isOver ? step * width : 0);
  bar.setAttribute("width", isOver ? width : 0);
  if (!isOver) return readout.replaceChildren(...legends.get(figure));
  const at = new Date(Date.parse(start) + step * seconds * 1000);
  const values = lines.map(({ name, values: now, before }) => `${name} ${write(now[step], unit)}${before[step] == null ? "" : `, before ${write(before[step], unit)}`}`);
  readout.replaceChildren(element("span", "values num", `${moment(at, true)}: ${values.join("; ")}`));
}

function followPointer(figure) {
  const plot = figure.querySelector(".plot");
  const count = JSON.parse(figure.dataset.values).lines[0].values.length;
  let chosen = count;
  const choose = (step) => showStep(figure, (chosen = Math.max(-1, Math.min(count, step))));
  plot.addEventListener("pointermove", (event) => {
    const { left, width } = plot.getBoundingClientRect();
    choose(Math.floor(((event.clientX - left) / width) * count));
  });
  plot.addEventListener("pointerleave", () => choose(count));
  plot.addEventListener("blur", () => choose(count));
  plot.addEventListener("keydown", (event) => {
    const by = { ArrowLeft: -1, ArrowRight: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    choose(chosen + by);
  });
}

// Hours of the week are counted in UTC; zones are whole hours but for a few, which are rounded.
function useLocalWeek(figure) {
  const shift = Math.round(-new Date().getTimezoneOffset() / 60);
  for (const cell of figure.querySelectorAll("[data-slot]")) {
    const slot = (Number(cell.dataset.slot) + shift + 168) % 168;
    cell.setAttribute("x", slot % 24);
    cell.setAttribute("y", Math.floor(slot / 24));
  }
  figure.querySelector("[data-heat-zone]").textContent = "your time zone";
}

function show() {
  place.querySelectorAll("[data-values]").forEach(followPointer);
  place.querySelectorAll("[data-heat]").forEach(useLocalWeek);
  place.querySelectorAll("[data-moment]").forEach(useLocalZone);
}
place?.addEventListener("htmx:afterSwap", show);

// Not while it is used, so that nothing moves under the pointer.
setInterval(() => {
  const content = place?.querySelector("[data-again]");
  if (content && !document.hidden && !place.matches(":hover, :focus-within")) htmx.ajax("GET", content.dataset.again, { target: content, swap: "outerHTML" });
}, AGAIN);
