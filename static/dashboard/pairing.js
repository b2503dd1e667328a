// Polls until an operator has entered the code.
const { paired, token } = document.body.dataset;

async function poll() {
  try {
    const response = await fetch(paired, { method: "POST", headers: { "X-CSRFToken": token } });
    const answer = await response.json();
    if (answer.state === "paired") return location.replace(answer.address);
    if (answer.state === "gone") return location.reload();
  } catch { /* the server is unreachable: poll again */ }
  setTimeout(poll, 2000);
}
poll();
