// The registry of keyboard shortcuts, from which the help dialog is written.
const bound = new Map();
const OFF = "keys-off"; // stored per browser: dictation and accidental key presses would trigger shortcuts

export function areOn() {
  return localStorage.getItem(OFF) === null;
}

export function switchKeys(on) {
  if (on) localStorage.removeItem(OFF);
  else localStorage.setItem(OFF, "yes");
}

export function key(name, help, action) {
  bound.set(name, { help, action });
}

function isTyping(target) {
  return target.closest("input:not([type=checkbox]):not([type=radio]):not([type=range]), textarea, select, [contenteditable]") !== null;
}

export function listen() {
  document.addEventListener("keydown", (event) => {
    if (event.ctrlKey || event.metaKey || event.altKey || isTyping(event.target) || !areOn()) return;
    if (document.querySelector("dialog[open]")) return; // dialogs handle their own keys
    const found = bound.get(event.key);
    if (!found) return;
    event.preventDefault();
    found.action(event);
  });
}

export function writeHelp(list) {
  list.replaceChildren();
  for (const [name, { help }] of bound) {
    const term = document.createElement("dt");
    const keyboard = document.createElement("kbd");
    keyboard.textContent = name === "Enter" ? "↵" : name;
    term.append(keyboard);
    const meaning = document.createElement("dd");
    meaning.textContent = help;
    list.append(term, meaning);
  }
}
