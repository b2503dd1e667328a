// The board: a snapshot, then merge patches (RFC 7396), the same for everybody who looks. One socket for the whole page.
import { Socket } from "./socket.js";

export function patched(old, patch) {
  const made = { ...old };
  for (const [name, value] of Object.entries(patch)) {
    if (value === null) delete made[name];
    else if (typeof value === "object" && !Array.isArray(value)) made[name] = patched(made[name] ?? {}, value);
    else made[name] = value;
  }
  return made;
}

const shown = [];
let board = null;

function hear({ type, ...rest }) {
  if (type === "snapshot") board = rest;
  else if (type === "delta" && board) board = patched(board, rest);
  if (board) for (const show of shown) show(board, rest);
}

export function watch(show) {
  shown.push(show);
  if (board) show(board, board);
  if (shown.length === 1) new Socket(() => "/ws/board/", hear);
}
