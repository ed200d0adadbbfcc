// How the map is laid out so that it fits one screen: how many equal columns each block has, how many levels have a
// label, and how large a cell is. Blocks of one level are measured by the fullest of them, so all are equally large.

export const GAP = 6;
const TILE = { width: 66, height: 44 };
const BLOCK = { labelled: { head: 22, pad: 8, gap: GAP }, plain: { head: 0, pad: 3, gap: 3 } };
const SIZES = [24, 20, 17, 14, 12, 10];

/** How many equal columns of at least a width stand side by side, so that the last row is as full as can be. */
export function columns(number, width, least, gap = GAP) {
  const most = Math.max(1, Math.min(number, Math.floor((width + gap) / (least + gap))));
  let best = most, empty = Infinity;
  for (let found = most; found >= Math.ceil(most / 2); found -= 1) {
    const left = (Math.ceil(number / found) * found - number) / number;
    if (left < empty - 1e-9) { best = found; empty = left; }
  }
  return best;
}

/** The richest layout that fits: labels on as many levels as can be, then cells as large as can be.
 *
 * `tree` has inner(d), the blocks in a block, and units(d), the number of cells or tiles of an innermost one. */
export function fitting(tree, root, width, height, { tiles }) {
  const depth = deepest(tree, root);
  let last = null;
  for (let labels = depth; labels >= Math.min(1, depth); labels -= 1) {
    for (const size of labels > 1 ? SIZES.slice(0, 5) : SIZES) {
      last = new Layout(tree, labels, size, tiles);
      const fits = last.measure(root, 0, width).height <= height;
      last.legible = fits && size >= 10 && depth - labels <= 2;
      if (fits) return last;
      if (tiles) break; // tiles have one size
    }
  }
  return last;
}

function deepest(tree, d) {
  return Math.max(0, ...tree.inner(d).slice(0, 8).map((child) => 1 + deepest(tree, child)));
}

class Layout {
  constructor(tree, labels, size, tiles) {
    Object.assign(this, { tree, labels, size, tiles });
    this.known = new Map();
    this.fullest = new Map();
  }

  /** How a block at a depth is framed. */
  frame(depth) { return depth <= this.labels ? BLOCK.labelled : BLOCK.plain; }

  /** Columns of what is in a block of an inner width, the width of each, and the height of all. */
  measure(d, depth, width) {
    const key = `${depth} ${Math.round(width / 4)} ${this.shape(d)}`;
    if (!this.known.has(key)) this.known.set(key, this.work(d, depth, width));
    return this.known.get(key);
  }

  work(d, depth, width) {
    const inner = this.tree.inner(d);
    if (!inner.length) return this.cells(this.tree.units(d), width);
    const child = inner.reduce((most, other) => (this.weight(other) > this.weight(most) ? other : most));
    const { head, pad, gap } = this.frame(depth + 1);
    let best = null;
    for (let number = 1; number <= inner.length; number += 1) {
      const each = (width + gap) / number - gap - 2 * pad - 2;
      if (number > 1 && each < Math.max(depth < this.labels ? 70 : 0, this.tiles ? TILE.width : this.size)) break;
      const rows = Math.ceil(inner.length / number);
      const height = rows * (this.measure(child, depth + 1, each).height + head + 2 * pad + 2 + gap) - gap;
      const empty = rows * number - inner.length;
      if (!best || height < best.height - 1 || (height < best.height + 1 && empty < best.empty)) best = { columns: number, each, height, empty, gap };
    }
    return best;
  }

  cells(number, width) {
    if (this.tiles) {
      const found = columns(number, width, TILE.width);
      return { columns: found, each: width / found, height: Math.ceil(number / found) * (TILE.height + GAP) - GAP, gap: GAP };
    }
    const gap = 2;
    const found = columns(number, width, this.size, gap);
    return { columns: found, each: this.size, height: Math.ceil(number / found) * (this.size + gap) - gap, gap };
  }

  weight(d) {
    const inner = this.tree.inner(d);
    if (!this.fullest.has(d)) this.fullest.set(d, inner.length ? inner.reduce((sum, child) => sum + this.weight(child), 0) : this.tree.units(d));
    return this.fullest.get(d);
  }

  /** Blocks of one shape are measured once. */
  shape(d) {
    const inner = this.tree.inner(d);
    return inner.length ? `${inner.length}(${this.shape(inner[0])}) ${this.weight(d)}` : String(this.tree.units(d));
  }
}
