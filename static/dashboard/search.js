// Completion of the search field: qualifiers, and their values where they are few.
export function completeSearch(form, hints) {
  const input = form.querySelector("input");
  const list = form.querySelector("[role=listbox]");
  let chosen = -1;

  const word = () => input.value.slice(0, input.selectionStart).split(/\s/).at(-1);

  function options() {
    const typed = word();
    const [name, value] = typed.split(":");
    if (value === undefined) return hints.filter((hint) => hint.name.startsWith(typed) && typed).map((hint) => `${hint.name}:`);
    const values = hints.find((hint) => hint.name === name)?.values ?? [];
    const last = value.split(",").at(-1).toLowerCase();
    return values.filter((each) => each.toLowerCase().startsWith(last)).map((each) => `${name}:${[...value.split(",").slice(0, -1), each].join(",")}`);
  }

  function show() {
    const found = document.activeElement === input ? options().slice(0, 12) : [];
    if (found.length === 1 && found[0] === word()) found.length = 0;
    chosen = -1;
    list.replaceChildren(...found.map((text, place) => {
      const item = document.createElement("li");
      item.textContent = text;
      item.role = "option";
      item.id = `completion-${place}`;
      item.addEventListener("mousedown", (event) => { event.preventDefault(); take(text); });
      return item;
    }));
    list.hidden = !found.length;
    input.setAttribute("aria-expanded", String(found.length > 0));
    input.removeAttribute("aria-activedescendant");
  }

  function take(text) {
    const end = input.selectionStart, start = end - word().length;
    const isWhole = !text.endsWith(":");
    input.value = `${input.value.slice(0, start)}${text}${isWhole ? " " : ""}${input.value.slice(end)}`;
    input.setSelectionRange(start + text.length + (isWhole ? 1 : 0), start + text.length + (isWhole ? 1 : 0));
    show();
  }

  function mark(place) {
    const items = [...list.children];
    chosen = (place + items.length) % items.length;
    items.forEach((item, each) => item.setAttribute("aria-selected", String(each === chosen)));
    input.setAttribute("aria-activedescendant", items[chosen].id);
  }

  input.addEventListener("input", show);
  input.addEventListener("focus", show);
  input.addEventListener("blur", () => { list.hidden = true; input.setAttribute("aria-expanded", "false"); });
  input.addEventListener("keydown", (event) => {
    if (event.key === "Escape") { if (list.hidden) input.blur(); else { list.hidden = true; event.preventDefault(); } }
    if (list.hidden) return;
    if (event.key === "ArrowDown") { event.preventDefault(); mark(chosen + 1); }
    if (event.key === "ArrowUp") { event.preventDefault(); mark(chosen - 1); }
    if ((event.key === "Tab" && !event.shiftKey) || (event.key === "Enter" && chosen >= 0)) {
      event.preventDefault();
      take(list.children[Math.max(chosen, 0)].textContent);
    }
  });
}
