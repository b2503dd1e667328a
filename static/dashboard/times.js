// Times in words and in the viewer's zone. They stand still while the page is not in touch with the server.
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

// A time of a day, with the day where there are several.
export function moment(when, hasDay) {
  return hasDay ? `${when.toDateString().slice(4, 10)} ${clock(when).slice(0, 5)}` : clock(when);
}

const FORMATS = { clock, ago, length: (when) => length((Date.now() - when.getTime()) / 1000) };

export function tellTimes(root = document) {
  for (const element of root.querySelectorAll("time[data-format]")) {
    const when = new Date(element.dateTime);
    if (Number.isNaN(when.getTime())) continue;
    const text = FORMATS[element.dataset.format](when);
    if (element.textContent !== text) element.textContent = text;
  }
}

// The exact time, in the viewer's zone, is written when it is pointed at: a browser takes long to learn how.
let exact = null;
export function tellExactly() {
  document.addEventListener("pointerover", ({ target }) => {
    const element = target.closest("time[data-format]");
    const when = new Date(element?.dateTime);
    if (Number.isNaN(when.getTime())) return;
    exact ??= new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "long" });
    element.title = exact.format(when);
  });
}

// A time is asked for in the viewer's zone and sent as UTC; an address without a zone means UTC too.
export function askInZone(input) {
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
