// The button names the action and the target state and is enabled only after a successful preview.
const button = document.getElementById("force-button");
const label = button.querySelector("span");
const { noun } = label.dataset;

function updateButton() {
  const possible = document.querySelector("#preview [data-possible=yes]");
  button.disabled = !possible;
  label.textContent = possible ? `${possible.dataset.verb} ${noun} to ${possible.dataset.to}` : `Force ${noun}`;
}

document.body.addEventListener("htmx:afterSwap", updateButton);
document.body.addEventListener("htmx:beforeRequest", () => { button.disabled = true; });
updateButton();
