// Asks every few seconds whether somebody has typed the code.
const { paired, token } = document.body.dataset;

async function ask() {
  try {
    const response = await fetch(paired, { method: "POST", headers: { "X-CSRFToken": token } });
    const answer = await response.json();
    if (answer.state === "paired") return location.replace(answer.address);
    if (answer.state === "gone") return location.reload();
  } catch { /* the server is away: ask again */ }
  setTimeout(ask, 2000);
}
ask();
