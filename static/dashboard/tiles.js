// The numbers of a machine on a card or a tile, from the board.
export function set(target, text) {
  if (target && target.textContent !== String(text)) target.textContent = text;
}

// Exact on pages, abbreviated on the wall.
function writeExact(place, number) {
  set(place, Math.round(number * 10) / 10);
}

export function writeShort(place, number) {
  if (!place) return;
  set(place, short(number));
  place.title = number;
}

const UNITS = [[1e9, "G"], [1e6, "M"], [1e3, "k"]];
function short(number) {
  if (number < 10) return String(Math.round(number * 10) / 10);
  if (number < 9_999.5) return String(Math.round(number));
  const [size, unit] = UNITS.find(([least]) => number >= least * 0.9995);
  const shown = number / size;
  return `${shown < 99.95 ? Math.round(shown * 10) / 10 : Math.round(shown)}${unit}`;
}

// On the wall, a state in which entities end shows how many did today, instead of ever.
function showMachine(card, counts, today, write) {
  const shares = [...card.querySelectorAll(".counts [data-state]")];
  const isLive = (share) => !["done", "failed", "ended"].includes(share.dataset.tone);
  const live = shares.filter(isLive).reduce((sum, share) => sum + (counts[share.dataset.state] ?? 0), 0);
  write(card.querySelector("[data-live]"), live);
  write(card.querySelector("[data-total]"), Object.values(counts).reduce((sum, count) => sum + count, 0));
  let start = 0;
  for (const share of shares) {
    const count = ("today" in share.dataset ? today : counts)[share.dataset.state] ?? 0;
    write(share.querySelector("b"), count);
    share.hidden = count === 0;
    const bar = card.querySelector(`[data-bar="${CSS.escape(share.dataset.state)}"]`);
    if (!bar) continue;
    const width = isLive(share) && live ? (100 * count) / live : 0;
    bar.setAttribute("x", `${start}%`);
    bar.setAttribute("width", `${width}%`);
    start += width;
  }
}

// A number of the board by its path; a star sums over all keys.
function sumAt(tree, [first, ...rest]) {
  if (first === undefined) return tree ?? 0;
  if (first === "*") return Object.values(tree ?? {}).reduce((sum, branch) => sum + sumAt(branch, rest), 0);
  return sumAt(tree?.[first], rest);
}

export function numberAt(board, path) {
  return sumAt(board, path.split("."));
}

function showFigures(board, write) {
  for (const place of document.querySelectorAll("[data-figure]")) {
    const value = numberAt(board, place.dataset.figure);
    write(place, value);
    const { mood } = place.parentElement.dataset;
    if (mood) place.parentElement.classList.toggle(mood, value !== 0);
  }
}

// A notice that is shown while its number is not zero.
function showNotices(board) {
  for (const notice of document.querySelectorAll("[data-shown-with]")) {
    notice.hidden = numberAt(board, notice.dataset.shownWith) === 0;
  }
}

// The counts beside the navigation.
export function showTallies(board) {
  for (const [name, path] of [["incidents", "incidents.open"], ["alerts", "alerts.open"], ["holds", "holds.length"]]) {
    const [tally, count] = [document.querySelector(`[data-tally="${name}"]`), numberAt(board, path)];
    if (!tally) continue;
    set(tally, count || "");
    tally.classList.toggle("loud", count > 0);
  }
}

export function showBoard(board, write = writeExact) {
  for (const card of document.querySelectorAll("[data-machine]")) showMachine(card, board.counts[card.dataset.machine] ?? {}, board.today?.[card.dataset.machine] ?? {}, write);
  showFigures(board, write);
  showNotices(board);
}
