// The board: a snapshot, then merge patches (RFC 7396), the same for everybody who looks.
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

export function watch(show) {
  let board = null;
  return new Socket(() => "/ws/board/", (message) => {
    const { type, ...rest } = message;
    if (type === "snapshot") board = rest;
    else if (type === "delta" && board) board = patched(board, rest);
    if (board) show(board, rest);
  });
}
