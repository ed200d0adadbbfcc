// How the map is laid out so that it fits one screen: how many equal columns each level has, which levels have a label,
// and how large a cell is. All blocks of one level are laid out alike, by the fullest of them, so equal domains are
// equally large wherever they stand; and where the numbers allow it, no row is left half empty.

export const GAP = 6;
const TILE = { width: 66, height: 44 };
const SIZES = [28, 24, 20, 17, 14, 12, 10];
const CELL_GAP = 2;
const SIDE = 4; // letters of a name that stands beside what is in a block, where there is no room above it
const LABELS = 4; // levels that have labels; frames within frames within frames are hard to read

/** How many equal columns of at least a width stand side by side, so that the last row is as full as can be. */
export function columns(number, width, least, gap = GAP) {
  const most = Math.max(1, Math.min(number, Math.floor((width + gap) / (least + gap))));
  let best = most,
    empty = Infinity;
  for (let found = most; found >= Math.ceil(most / 2); found -= 1) {
    const left = (Math.ceil(number / found) * found - number) / number;
    if (left < empty - 1e-9) {
      best = found;
      empty = left;
    }
  }
  return best;
}

/** The richest layout that fits: labels on as many levels as can be, then full rows, then cells as large as can be.
 *
 * `tree` has inner(d), the blocks in a block, units(d), the number of cells or tiles of an innermost one, and brief(d),
 * the part of a name that tells it from those beside it. */
export function fitting(tree, root, width, height, { tiles, least = 10 }) {
  const levels = levelsOf(tree, root);
  const sizes = tiles ? [TILE.width] : SIZES.filter((size) => size >= least);
  /** @type {Any} */
  let last = null;
  for (let labels = Math.min(LABELS, levels.length - 1); labels >= Math.min(1, levels.length - 1); labels -= 1) {
    for (const sided of [true, false]) {
      for (const ragged of [false, true]) {
        for (const size of sizes) {
          if (!ragged && size < 12) continue; // a row that is not full is better than cells that are hard to hit
          last = new Layout(levels, { labels, size, tiles, ragged, sided });
          last.legible = last.measure(0, width).height <= height;
          if (last.legible) return last;
        }
      }
    }
  }
  return last;
}

/** Level by level: the most blocks in a block, the most cells in one without blocks, and whether few are so full. */
function levelsOf(tree, root) {
  const levels = [];
  for (let here = [root]; here.length;) {
    const blocks = here.map((d) => tree.inner(d));
    const units = here.filter((_, i) => !blocks[i].length).map((d) => tree.units(d));
    const numbers = [...blocks.map((inner) => inner.length).filter(Boolean), ...units].sort((a, b) => a - b);
    levels.push({
      inner: Math.max(0, ...blocks.map((inner) => inner.length)),
      units: Math.max(0, ...units),
      skewed: numbers.at(-1) > 2 * numbers[numbers.length >> 1],
      brief: Math.max(0, ...(levels.length ? here : []).map((d) => tree.brief(d).length)),
    });
    here = blocks.flat();
  }
  return levels;
}

class Layout {
  constructor(levels, how) {
    this.levels = levels;
    this.labels = how.labels; // levels that have labels
    this.size = how.size;
    this.tiles = how.tiles;
    this.ragged = how.ragged; // whether rows may be left half empty
    this.sided = how.sided; // whether names may stand beside what is in a block
    this.legible = false;
    this.known = new Map();
  }

  /** How the blocks of a depth are framed: with a label, with a border and a name beside it, or by gaps that grow. */
  frame(depth) {
    if (depth <= this.labels) return { kind: "", head: 22, pad: 9, gap: GAP, side: 0 };
    const { brief } = this.levels[depth];
    const side = this.sided && depth === this.labels + 1 && brief <= SIDE ? 7 * brief + 4 : 0;
    if (depth === this.labels + 1) return { kind: side ? " plain sided" : " plain", head: 0, pad: 4, gap: 3, side };
    return { kind: " bare", head: 0, pad: 0, gap: Math.min(GAP, CELL_GAP + this.levels.length - depth), side };
  }

  /** Of a block at a depth with an inner width: columns of its blocks or cells, the width of each, the height of all. */
  measure(depth, width) {
    const key = `${depth} ${Math.round(width)}`;
    if (!this.known.has(key)) this.known.set(key, this.work(depth, width));
    return this.known.get(key);
  }

  work(depth, width) {
    const { inner, units } = this.levels[depth];
    const cells = this.cells(units, width);
    if (!inner) return { cells, height: cells.height };
    const { head, pad, gap, side } = this.frame(depth + 1);
    const least = Math.max(depth < this.labels ? 70 : 0, this.size);
    /** @type {Any} */
    let best = null;
    for (let number = 1; number <= inner; number += 1) {
      const each = (width + gap) / number - gap - 2 * pad - side;
      if (number > 1 && each < least) break;
      const rows = Math.ceil(inner / number);
      const empty = rows * number - inner;
      if (empty && !this.ragged && number > 1) continue;
      const row = this.measure(depth + 1, each).height + head + 2 * pad;
      const height = rows * (row + gap) - gap;
      if (!best || height < best.height - 1 || (height < best.height + 1 && empty < best.empty))
        best = { columns: number, each, row, height, empty, gap };
    }
    return {
      ...best,
      cells,
      row: this.levels[depth + 1].skewed ? 0 : best.row,
      height: Math.max(best.height, cells.height),
    };
  }

  cells(number, width) {
    const size = this.tiles
      ? { width: TILE.width, height: TILE.height, gap: GAP }
      : { width: this.size, height: this.size, gap: CELL_GAP };
    const found = columns(number, width, size.width, size.gap);
    const full = this.ragged || this.tiles || number % found === 0;
    const height = full ? Math.ceil(number / found) * (size.height + size.gap) - size.gap : Infinity;
    return { columns: found, each: this.tiles ? width / found : this.size, gap: size.gap, height: Math.max(0, height) };
  }
}
