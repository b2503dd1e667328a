// Copying what a button names. Without a secure connection a browser keeps its clipboard to itself: then the text is
// selected, and the rest is one key.
const SHOWN = 1500;

export async function copyFrom(button) {
  try {
    await navigator.clipboard.writeText(button.dataset.copy);
    button.classList.add("done");
    setTimeout(() => button.classList.remove("done"), SHOWN);
  } catch {
    select(button);
  }
}

function select(button) {
  const field = document.createElement("textarea");
  Object.assign(field, { value: button.dataset.copy, readOnly: true, className: "to-copy", rows: 1, wrap: "off" });
  const said = document.createElement("span");
  Object.assign(said, { className: "small", textContent: "Selected: copy it with Ctrl C" });
  said.setAttribute("role", "status");
  field.setAttribute("aria-label", "What to copy");
  field.addEventListener("blur", () => { field.replaceWith(button); said.remove(); });
  button.replaceWith(field);
  field.after(said);
  field.select();
}
