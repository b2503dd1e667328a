// Relative times in the viewer's zone. They stop while the page is disconnected.
const STEPS = [[172800, "d", 86400], [7200, "h", 3600], [60, "min", 60]];

export function length(seconds) {
  for (const [least, unit, size] of STEPS) if (seconds >= least) return `${Math.floor(seconds / size)} ${unit}`;
  return `${Math.max(0, Math.floor(seconds))} s`;
}

export function ago(when, at = Date.now()) {
  const seconds = (at - when.getTime()) / 1000;
  return seconds < -1 ? `in ${length(-seconds)}` : `${length(seconds)} ago`;
}

export function clock(when) {
  return when.toTimeString().slice(0, 8);
}

// The time of day, with the date when the range spans days.
export function moment(when, hasDay) {
  return hasDay ? `${when.toDateString().slice(4, 10)} ${clock(when).slice(0, 5)}` : clock(when);
}

// `16:40 to 17:05`, to the minute; a time of another day than the one before has the date.
export function span(start, end) {
  const show = (when, day) => when.toDateString() === day.toDateString() ? clock(when).slice(0, 5) : moment(when, true);
  const [first, last] = [show(start, new Date()), show(end, start)];
  return first === last ? first : `${first} to ${last}`;
}

// `1:02:03 left`: to the second, because someone waits for it.
export function countdown(when, at = Date.now()) {
  const seconds = Math.max(0, Math.ceil((when.getTime() - at) / 1000));
  if (seconds >= 172_800) return `${length(seconds)} left`;
  const [hours, minutes, rest] = [Math.floor(seconds / 3600), Math.floor(seconds / 60) % 60, seconds % 60];
  const parts = hours ? [hours, String(minutes).padStart(2, "0")] : [minutes];
  return `${[...parts, String(rest).padStart(2, "0")].join(":")} left`;
}

const FORMATS = { clock, ago, countdown, minute: (when) => clock(when).slice(0, 5), day: (when) => when.toDateString().slice(4, 10), local: (when) => moment(when, true), length: (when) => length((Date.now() - when.getTime()) / 1000) };

export function updateTimes(root = document) {
  for (const element of root.querySelectorAll("time[data-format]")) {
    const when = new Date(element.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    const text = FORMATS[element.dataset.format](when);
    if (element.textContent !== text) element.textContent = text;
  }
}

// The exact time in the viewer's zone is formatted on hover, because creating a formatter is slow.
let exact = null;
export function showExactTimes() {
  document.addEventListener("pointerover", ({ target }) => {
    const element = target.closest("time[data-format]");
    const when = new Date(element?.dateTime);
    if (Number.isNaN(when.getTime())) return;
    exact ??= new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
    element.title = exact.format(when);
  });
}

// A datetime field shows the viewer's zone and submits UTC; a URL without a zone means UTC.
export function useLocalZone(input) {
  const given = input.getAttribute("value");
  const when = new Date(/Z$|[+-]\d\d:\d\d$/.test(given) ? given : `${given}Z`);
  const shifted = new Date(when.getTime() - when.getTimezoneOffset() * 60_000);
  input.value = Number.isNaN(shifted.getTime()) ? "" : shifted.toISOString().slice(0, 16);
  input.form.addEventListener("formdata", ({ formData }) => {
    if (input.value) formData.set(input.name, new Date(input.value).toISOString());
  });
}

export function timeElement(iso, format) {
  const element = document.createElement("time");
  element.dateTime = iso;
  element.dataset.format = format;
  element.className = "num";
  element.textContent = FORMATS[format](new Date(iso));
  element.title = iso;
  return element;
}
