// The numbers of a machine on a card or a tile, from the board.
export function set(target, text) {
  if (target && target.textContent !== String(text)) target.textContent = text;
}

export function showMachine(card, counts) {
  const shares = [...card.querySelectorAll(".counts [data-state]")];
  const isLive = (share) => !["done", "failed", "ended"].includes(share.dataset.tone);
  const live = shares.filter(isLive).reduce((sum, share) => sum + (counts[share.dataset.state] ?? 0), 0);
  set(card.querySelector("[data-live]"), live);
  set(card.querySelector("[data-total]"), Object.values(counts).reduce((sum, count) => sum + count, 0));
  let start = 0;
  for (const share of shares) {
    const count = counts[share.dataset.state] ?? 0;
    set(share.querySelector("b"), count);
    share.hidden = count === 0;
    const bar = card.querySelector(`[data-bar="${CSS.escape(share.dataset.state)}"]`);
    if (!bar) continue;
    const width = isLive(share) && live ? (100 * count) / live : 0;
    bar.setAttribute("x", `${start}%`);
    bar.setAttribute("width", `${width}%`);
    start += width;
  }
}

// A number of the board by its path; a star adds up all that is there.
function found(tree, [first, ...rest]) {
  if (first === undefined) return tree ?? 0;
  if (first === "*") return Object.values(tree ?? {}).reduce((sum, branch) => sum + found(branch, rest), 0);
  return found(tree?.[first], rest);
}

export function numberAt(board, path) {
  return found(board, path.split("."));
}

function showFigures(board) {
  for (const place of document.querySelectorAll("[data-figure]")) {
    const value = Math.round(numberAt(board, place.dataset.figure) * 10) / 10;
    set(place, value);
    const { mood } = place.parentElement.dataset;
    if (mood) place.parentElement.classList.toggle(mood, value !== 0);
  }
}

// The two numbers beside the navigation.
export function showTallies(board) {
  for (const [name, count] of [["stuck", board.stuck.total], ["alerts", board.alerts.open]]) {
    const tally = document.querySelector(`[data-tally="${name}"]`);
    if (!tally) continue;
    set(tally, count || "");
    tally.classList.toggle("loud", count > 0);
  }
}

export function showBoard(board) {
  for (const card of document.querySelectorAll("[data-machine]")) showMachine(card, board.counts[card.dataset.machine] ?? {});
  showFigures(board);
}
