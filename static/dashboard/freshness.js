// How fresh the page is, in a word: live, delayed, disconnected; a page without a socket says when it was made.
const BEHIND = 10_000; // an event older than this on arrival: the sequencer is behind
const CATCHING_UP = 5_000; // after coming back, what was missed is old and no sign of anything

export const connection = {
  state: "static",
  heardAt: Date.now(),
  openedAt: 0,
  get isFresh() { return this.state !== "disconnected"; },
};

const element = document.getElementById("freshness");
const WORDS = { live: "live", delayed: "delayed, as of", disconnected: "disconnected since" };

export function tell(state) {
  if (state !== "disconnected") connection.heardAt = Date.now();
  if (connection.state === state) return;
  connection.state = state;
  document.body.dataset.connection = state;
  if (!element) return;
  element.dataset.state = state;
  element.querySelector(".word").textContent = WORDS[state];
  element.querySelector("time").dateTime = new Date(connection.heardAt).toISOString();
  element.querySelector(".asof").hidden = state === "live";
}

export function opened() {
  connection.openedAt = Date.now();
}

let recovery = 0;
export function tellAgeOf(timestamp) {
  const isOld = Date.now() - new Date(timestamp).getTime() > BEHIND && Date.now() - connection.openedAt > CATCHING_UP;
  tell(isOld ? "delayed" : "live");
  clearTimeout(recovery);
  // Without another late one it is not behind any more: there was nothing else to tell.
  if (isOld) recovery = setTimeout(() => { if (connection.state === "delayed") tell("live"); }, BEHIND);
}
