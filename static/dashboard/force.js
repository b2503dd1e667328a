// The button says what it will do, and is open only once the preview has shown that it can be done.
const button = document.getElementById("force-button");
const words = button.querySelector("span");
const noun = words.textContent.trim().split(" to ")[0];

function look() {
  const possible = document.querySelector("#preview [data-possible=yes]");
  button.disabled = !possible;
  words.textContent = possible ? `${noun} to ${possible.dataset.to}` : noun;
}

document.body.addEventListener("htmx:afterSwap", look);
document.body.addEventListener("htmx:beforeRequest", () => { button.disabled = true; });
look();
