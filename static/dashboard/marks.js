// The chips, marks and icons that the server renders, for rows added by scripts.
const SVG = "http://www.w3.org/2000/svg";
const sprite = new URL("icons.svg", import.meta.url).pathname;

export function svg(name, attributes = {}, ...children) {
  const element = document.createElementNS(SVG, name);
  for (const [key, value] of Object.entries(attributes)) if (value !== null && value !== undefined) element.setAttribute(key, value);
  element.append(...children);
  return element;
}

export function icon(name) {
  return svg("svg", { class: "icon", "aria-hidden": "true" }, svg("use", { href: `${sprite}#${name}` }));
}

export function use(name, x, y, size) {
  return svg("use", { href: `${sprite}#${name}`, x, y, width: size, height: size });
}

export function element(name, className, ...children) {
  const made = document.createElement(name);
  if (className) made.className = className;
  made.append(...children);
  return made;
}

export function chip(look, state, kind = "") {
  const tone = look?.tone ?? "ended";
  return element("span", `chip ${tone} ${kind}`.trim(), icon(tone), look?.word ?? state);
}

export function forcedMark() {
  const mark = element("span", "mark-forced", icon("forced"), "forced");
  mark.title = "An operator has forced this entity's state at least once";
  return mark;
}

// The empty state of content that failed to load.
export function errorNote(title, rest) {
  const note = element("div", "empty", element("strong", "", title), element("span", "", rest));
  note.dataset.empty = "error";
  note.setAttribute("role", "alert");
  return note;
}

export function readJson(id) {
  return JSON.parse(document.getElementById(id).textContent);
}
