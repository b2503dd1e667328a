// The board: a snapshot, then JSON merge patches (RFC 7396). One socket serves the whole page.
import { Socket } from "./socket.js";

export function applyPatch(old, patch) {
  const made = { ...old };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete made[name];
    else if (typeof value === "object" && !Array.isArray(value)) made[name] = applyPatch(made[name] ?? {}, value);
    else made[name] = value;
  }
  return made;
}

const listeners = [];
let board = null;

function receive({ type, ...rest }) {
  if (type === "snapshot") board = rest;
  else if (type === "delta" && board) board = applyPatch(board, rest);
  if (board) for (const show of listeners) show(board, rest);
}

export function watch(show) {
  listeners.push(show);
  if (board) show(board, board);
  if (listeners.length === 1) new Socket(() => "/ws/board/", receive);
}
