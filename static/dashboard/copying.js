// Copy buttons. Without a secure connection the browser offers no clipboard: then the text is selected, ready to copy.
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
  const hint = document.createElement("span");
  Object.assign(hint, { className: "small", textContent: "Selected. Press Ctrl+C to copy." });
  hint.setAttribute("role", "status");
  field.setAttribute("aria-label", "Text to copy");
  field.addEventListener("blur", () => { field.replaceWith(button); hint.remove(); });
  button.replaceWith(field);
  field.after(hint);
  field.select();
}
