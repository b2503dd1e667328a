// How fresh the page is, in a word: live, delayed, disconnected; a page without a socket says when it was made.
import { timeElement } from "./times.js";

const BEHIND = 10_000; // an event older than this on arrival: the sequencer is behind
const CATCHING_UP = 5_000; // after coming back, what was missed is old and no sign of anything

export const connection = {
  state: "static",
  heardAt: Date.now(),
  openedAt: 0,
  get isFresh() { return this.state !== "disconnected"; },
};

const element = document.getElementById("freshness");
const madeAt = element?.querySelector("time").dateTime ?? Date.now();
// What does not follow the server is as old as it is, however good the connection.
const { position, hears } = document.body.dataset;
const follows = (position !== undefined && hears) || document.body.classList.contains("wall");
const WORDS = { static: "", live: "live", delayed: "delayed", disconnected: "disconnected" };

function tell(state) {
  if (connection.state === state) return;
  connection.state = state;
  document.body.dataset.connection = state;
  if (!element) return;
  const seen = state === "live" && !follows ? "static" : state;
  element.dataset.state = seen;
  element.querySelector(".word").textContent = WORDS[seen];
  element.querySelector("time").replaceWith(timeElement(new Date(follows ? connection.heardAt : madeAt).toISOString(), "clock"));
  element.querySelector(".asof").hidden = seen === "live";
}

export function opened() {
  connection.openedAt = Date.now();
}

// A page with several sockets is as good as its worst: it is live again when the last one that was lost has spoken.
const lost = new Set();
export function heard(socket) {
  connection.heardAt = Date.now();
  lost.delete(socket);
  if (!lost.size && connection.state !== "delayed") tell("live");
}

export function missed(socket) {
  lost.add(socket);
  tell("disconnected");
}

// A socket is not told why it is refused. The page is asked in its place: who is sent away from it is logged out.
let isAsking = false;
export async function refused() {
  if (isAsking || !element || document.body.classList.contains("wall")) return;
  isAsking = true;
  try {
    const answer = await fetch(location.href, { method: "HEAD", redirect: "manual" });
    if (answer.type === "opaqueredirect" && connection.state === "disconnected") tellLoggedOut();
  } catch { /* the server is away */ } finally {
    isAsking = false;
  }
}

function tellLoggedOut() {
  const link = document.createElement("a");
  link.href = location.href; // which leads to the login, and back
  link.textContent = "logged out: log in";
  element.querySelector(".word").replaceChildren(link);
}

let recovery = 0;
export function tellAgeOf(timestamp) {
  if (lost.size) return;
  const isOld = Date.now() - new Date(timestamp).getTime() > BEHIND && Date.now() - connection.openedAt > CATCHING_UP;
  tell(isOld ? "delayed" : "live");
  clearTimeout(recovery);
  // Without another late one it is not behind any more: there was nothing else to tell.
  if (isOld) recovery = setTimeout(() => { if (connection.state === "delayed") tell("live"); }, BEHIND);
}
