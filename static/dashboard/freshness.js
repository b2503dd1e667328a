// The freshness indicator: live, delayed or disconnected; a page without a socket shows when it was rendered.
import { timeElement } from "./times.js";

const BEHIND = 10_000; // an event older than this on arrival means that the sequencer is behind
const CATCHING_UP = 5_000; // after a reconnect, missed events are old without meaning a delay

export const connection = {
  state: "static",
  contactAt: Date.now(),
  openedAt: 0,
  get isFresh() { return this.state !== "disconnected"; },
};

const element = document.getElementById("freshness");
const renderedAt = element?.querySelector("time").dateTime ?? Date.now();
// A page without live updates is as old as its rendering, whatever the connection.
const { position, canStream } = document.body.dataset;
const follows = (position !== undefined && canStream) || document.body.classList.contains("wall");
const WORDS = { static: "", live: "live", delayed: "delayed", disconnected: "disconnected" };

function setState(state) {
  if (connection.state === state) return;
  connection.state = state;
  document.body.dataset.connection = state;
  if (!element) return;
  const shown = state === "live" && !follows ? "static" : state;
  element.dataset.state = shown;
  element.querySelector(".word").textContent = WORDS[shown];
  element.querySelector("time").replaceWith(timeElement(new Date(follows ? connection.contactAt : renderedAt).toISOString(), "clock"));
  element.querySelector(".asof").hidden = shown === "live";
}

export function markOpened() {
  connection.openedAt = Date.now();
}

// A page with several sockets is live again once every lost socket has received a message.
const lost = new Set();
export function markContact(socket) {
  connection.contactAt = Date.now();
  lost.delete(socket);
  if (!lost.size && connection.state !== "delayed") setState("live");
}

export function markLost(socket) {
  lost.add(socket);
  setState("disconnected");
}

// A refused socket gets no reason. A redirect of the page itself means that the user is logged out.
let isChecking = false;
export async function checkLogin() {
  if (isChecking || !element || document.body.classList.contains("wall")) return;
  isChecking = true;
  try {
    const answer = await fetch(location.href, { method: "HEAD", redirect: "manual" });
    if (answer.type === "opaqueredirect" && connection.state === "disconnected") showLoggedOut();
  } catch { /* the server is unreachable */ } finally {
    isChecking = false;
  }
}

function showLoggedOut() {
  const link = document.createElement("a");
  link.href = location.href; // redirects to the login and back
  link.textContent = "Logged out. Log in";
  element.querySelector(".word").replaceChildren(link);
}

let recovery = 0;
export function reportEventAge(timestamp) {
  if (lost.size) return;
  const isOld = Date.now() - new Date(timestamp).getTime() > BEHIND && Date.now() - connection.openedAt > CATCHING_UP;
  setState(isOld ? "delayed" : "live");
  clearTimeout(recovery);
  // Live again when no other late event arrives.
  if (isOld) recovery = setTimeout(() => { if (connection.state === "delayed") setState("live"); }, BEHIND);
}
