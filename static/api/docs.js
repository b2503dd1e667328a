// Search over the calls, their fields from the OpenAPI document, and a form that sends a call.

const tools = document.getElementById("tools");
const search = document.getElementById("search");
const token = document.getElementById("token");
const found = document.getElementById("found");
const calls = [...document.querySelectorAll(".call")];
const BODY = "application/json";
let loading;

function loadSchema() {
  loading ??= fetch(document.body.dataset.schema).then((response) => response.json());
  return loading;
}

function headers() {
  return token.value ? { Authorization: `Bearer ${token.value}` } : { "X-CSRFToken": document.body.dataset.csrf };
}

// Search

function filter() {
  const words = search.value.toLowerCase().split(/\s+/).filter(Boolean);
  for (const call of calls) {
    const text = `${call.dataset.method} ${call.textContent}`.toLowerCase();
    call.hidden = !words.every((word) => text.includes(word));
  }
  for (const section of document.querySelectorAll(".tag")) {
    const own = [...section.querySelectorAll(".call")];
    section.hidden = own.length > 0 && own.every((call) => call.hidden);
  }
  const count = calls.filter((call) => !call.hidden).length;
  found.textContent = words.length ? `${count} of ${calls.length} calls` : "";
}

// Fields

function resolve(schema, all) {
  return schema?.$ref ? all[schema.$ref.split("/").pop()] : schema;
}

/** The alternatives of a body that has one shape for each trigger; otherwise the body itself. */
function shapesOf(schema, all) {
  const found = resolve(schema, all) ?? {};
  return (found.anyOf ?? found.oneOf ?? [found]).map((each) => resolve(each, all));
}

function typeOf(schema, all) {
  if (schema.$ref) return schema.$ref.split("/").pop();
  if (schema.const !== undefined) return JSON.stringify(schema.const);
  if (schema.enum) return schema.enum.map((each) => JSON.stringify(each)).join(" | ");
  if (schema.anyOf) return schema.anyOf.map((each) => typeOf(each, all)).join(" | ");
  const type = [schema.type ?? "any"].flat().join(" | ");
  return schema.items ? `${type} of ${typeOf(schema.items, all)}` : schema.format ? `${type}, ${schema.format}` : type;
}

function element(name, text = "", attributes = {}) {
  const made = document.createElement(name);
  made.textContent = text;
  for (const [key, value] of Object.entries(attributes)) made.setAttribute(key, value);
  return made;
}

function fieldsTable(shape, all) {
  const table = element("table", "", { class: "fields" });
  table.append(element("caption", "Body"));
  const rows = element("tbody");
  for (const [name, schema] of Object.entries(shape.properties ?? {})) {
    const row = element("tr");
    const cell = element("td");
    cell.append(element("code", name));
    if (shape.required?.includes(name)) cell.append(" ", element("span", "required", { class: "tiny" }));
    row.append(cell, element("td", typeOf(schema, all)), element("td", schema.description ?? ""));
    rows.append(row);
  }
  table.append(rows);
  return table;
}

// Try it out

function parametersOf(operation) {
  return (operation.parameters ?? []).filter((each) => each.in === "path" || each.in === "query");
}

function address(call, operation, form) {
  let path = call.dataset.path;
  const query = new URLSearchParams();
  for (const parameter of parametersOf(operation)) {
    const value = form.elements[`p-${parameter.name}`].value.trim();
    if (parameter.in === "path") path = path.replace(`{${parameter.name}}`, encodeURIComponent(value));
    else if (value) query.append(parameter.name, value);
  }
  return query.size ? `${path}?${query}` : path;
}

async function send(call, operation, form, output) {
  const status = element("p", "Sending…");
  output.replaceChildren(status);
  const options = { method: call.dataset.method, headers: { ...headers(), Accept: BODY } };
  if (form.elements.body?.value.trim()) {
    options.headers["Content-Type"] = BODY;
    options.body = form.elements.body.value;
  }
  if (token.value) options.credentials = "omit";
  try {
    const response = await fetch(address(call, operation, form), options);
    const text = await response.text();
    status.textContent = `${response.status} ${response.statusText}`;
    status.dataset.outcome = response.ok ? "ok" : "refused";
    output.append(element("pre", format(text)));
  } catch {
    status.textContent = "The server did not answer. Check the connection and send again.";
    status.dataset.outcome = "refused";
  }
}

function format(text) {
  try {
    return JSON.stringify(JSON.parse(text), null, 2);
  } catch {
    return text;
  }
}

/** A text with the example of the body, and a choice if there is one for each trigger. */
function addBody(form, body) {
  const examples = body.examples ?? { "": { value: body.example ?? {} } };
  const text = element("textarea", "", { name: "body", "aria-label": "Body as JSON", spellcheck: "false" });
  const show = (name) => (text.value = JSON.stringify(examples[name].value, null, 2));
  const names = Object.keys(examples);
  show(names[0]);
  if (names.length > 1) {
    const choice = element("select");
    for (const name of names) choice.append(new Option(name));
    choice.addEventListener("change", () => show(choice.value));
    const label = element("label", "trigger");
    label.append(choice);
    form.append(label);
  }
  form.append(text);
}

function makeForm(call, operation) {
  const form = element("form", "", { class: "try" });
  form.append(element("h3", "Try it out"));
  for (const parameter of parametersOf(operation)) {
    const label = element("label", parameter.name);
    const input = element("input", "", { name: `p-${parameter.name}`, autocomplete: "off" });
    input.required = parameter.in === "path";
    label.append(input);
    form.append(label);
  }
  const body = operation.requestBody?.content?.[BODY];
  if (body) addBody(form, body);
  const output = element("div", "", { "aria-live": "polite" });
  form.append(element("button", `Send ${call.dataset.method}`, { class: "button" }), output);
  form.addEventListener("submit", (event) => {
    event.preventDefault();
    send(call, operation, form, output);
  });
  return form;
}

async function open(call) {
  if (!call.open || call.dataset.filled) return;
  call.dataset.filled = "yes";
  const about = call.querySelector(".about");
  const document_ = await loadSchema();
  const all = document_.components.schemas;
  const operation = document_.paths[call.dataset.path][call.dataset.method.toLowerCase()];
  const body = operation.requestBody?.content?.[BODY]?.schema;
  if (body) about.append(fieldsTable(shapesOf(body, all)[0], all));
  about.append(makeForm(call, operation));
}

tools.hidden = false;
tools.addEventListener("submit", (event) => event.preventDefault());
search.addEventListener("input", filter);
for (const call of calls) call.addEventListener("toggle", () => open(call));
document.addEventListener("keydown", (event) => {
  if (event.key !== "/" || event.target.closest("input, textarea, select")) return;
  event.preventDefault();
  search.focus();
});
const chosen = document.getElementById(location.hash.slice(1));
if (chosen?.matches(".call")) chosen.open = true;
