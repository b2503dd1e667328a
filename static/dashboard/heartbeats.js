// Heartbeats are no events, so parts of a page that show them are fetched again while the page is visible and connected.
import { connection } from "./freshness.js";
import { updateTimes } from "./times.js";

const INTERVAL = 5_000;

async function refresh(part) {
  const answer = await fetch(part.dataset.heartbeats, { headers: { "HX-Request": "true" }, redirect: "error" });
  if (answer.status === 204) return part.classList.add("hidden"); // nothing expects heartbeats any more
  if (!answer.ok) return;
  part.querySelector("[data-content]").innerHTML = await answer.text();
  part.classList.remove("hidden");
  updateTimes(part);
}

export function followHeartbeats() {
  const parts = [...document.querySelectorAll("[data-heartbeats]")];
  const refreshAll = () => { for (const part of parts) refresh(part).catch(() => {}); };
  if (parts.length) setInterval(() => { if (!document.hidden && connection.isFresh) refreshAll(); }, INTERVAL);
  return refreshAll;
}
