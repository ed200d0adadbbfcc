// Before and after, side by side: the domains of both boards, and arrows for the pods that leave one for another.

import { svg } from "./dom.js";
import { Fabric } from "./fabric.js";
import { many, short } from "./format.js";

const MOST = 16; // domains in one column
const ROW = 30,
  HEAD = 22,
  WAITS = "waits";

/** Two maps and arrows between them; nothing where no pod goes elsewhere.
 *
 * @param {Board} before
 * @param {Board} after
 * @param {[string, string, boolean, number][]} flows from a domain to another, of those who run or wait, so many pods */
export function drawFlows(before, after, flows) {
  if (!flows?.length) return null;
  const resource = before.resources[0];
  const trees = [before, after].map((board) => new Fabric(board.fabrics[0], resource));
  const level = leveled(trees, flows);
  const merged = new Map();
  for (const [from, to, runs, pods] of flows) {
    const ends = [level(from), level(to)];
    const key = JSON.stringify([...ends, runs]);
    merged.set(key, { from: ends[0], to: ends[1], runs, pods: (merged.get(key)?.pods ?? 0) + pods });
  }
  const arrows = [...merged.values()].sort((one, other) => other.pods - one.pods).slice(0, 40);
  const names = [...new Set(arrows.flatMap(({ from, to }) => [from, to]))].sort(
    (one, other) => place(trees, one) - place(trees, other),
  );
  const width = Math.max(300, Math.min(760, document.getElementById("whatif")?.clientWidth ?? 760) - 40);
  const tile = Math.floor(width * 0.34),
    height = HEAD + names.length * ROW;
  const y = (name) => HEAD + names.indexOf(name) * ROW + (ROW - 6) / 2;
  const said = arrows.map(
    ({ from, to, runs, pods }) => `${many(pods, "pod")} ${runs ? "that run" : "that wait"} from ${from} to ${to}`,
  );
  return svg(
    "svg",
    {
      class: "flows",
      viewBox: `0 0 ${width} ${height}`,
      width,
      height,
      role: "img",
      "aria-label": `Before and after: ${said.slice(0, 12).join("; ")}`,
    },
    svg(
      "defs",
      {},
      ["runs", "plans"].map((kind) =>
        svg(
          "marker",
          {
            id: `to-${kind}`,
            class: kind,
            viewBox: "0 0 8 8",
            refX: "7",
            refY: "4",
            markerWidth: "7",
            markerHeight: "7",
            markerUnits: "userSpaceOnUse",
            orient: "auto",
          },
          svg("path", { d: "M0 0L8 4L0 8Z" }),
        ),
      ),
    ),
    ["now", "with the changes"].map((text, side) =>
      svg("text", { class: "soft", x: side ? width - tile : 0, y: 14 }, text),
    ),
    trees.flatMap((tree, side) =>
      names.map((name) => domain(tree, name, { x: side ? width - tile : 0, y: y(name), width: tile, resource })),
    ),
    arrows.map(({ from, to, runs, pods }) => {
      const [one, other] = [y(from), y(to)];
      const path = `M${tile + 2} ${one}C${width / 2} ${one} ${width / 2} ${other} ${width - tile - 4} ${other}`;
      const kind = runs ? "runs" : "plans";
      return svg(
        "path",
        {
          class: `flow ${kind}`,
          d: path,
          "stroke-width": Math.min(7, 1 + Math.log2(1 + pods)),
          "marker-end": `url(#to-${kind})`,
        },
        svg("title", {}, said[arrows.findIndex((a) => a.from === from && a.to === to && a.runs === runs)]),
      );
    }),
  );
}

/** Where a name stands: in the order of the trees, those who wait last. */
function place(trees, name) {
  const found = trees.map((tree) => tree.find(name)).find((d) => d >= 0);
  return name === WAITS ? Infinity : (found ?? 1e6);
}

/** How innermost domains are called in the drawing: by the innermost level that does not have too many of them. */
function leveled(trees, flows) {
  const leaves = [...new Set(flows.flatMap(([from, to]) => [from, to]))].filter(Boolean);
  const paths = new Map(
    leaves.map((leaf) => {
      const tree = trees.find((found) => found.find(leaf) >= 0);
      return [leaf, tree ? tree.path(tree.find(leaf)).map((d) => tree.name(d)) : [leaf]];
    }),
  );
  let depth = Math.max(1, ...[...paths.values()].map((path) => path.length));
  const at = (leaf) => paths.get(leaf)?.slice(0, depth).at(-1) ?? WAITS;
  while (depth > 2 && new Set(leaves.map(at)).size > MOST) depth -= 1;
  return (leaf) => (leaf ? at(leaf) : WAITS);
}

function domain(tree, name, { x, y, width, resource }) {
  const d = tree.find(name);
  const [used, total] = d >= 0 ? [tree.sum("used", d), tree.sum("total", d)] : [0, 0];
  const top = y - (ROW - 6) / 2;
  const amounts = d >= 0 ? `${short(resource, used)}/${short(resource, total)}` : name === WAITS ? "" : "–";
  const fits = Math.floor((width - 8 * amounts.length - 14) / 7);
  return svg(
    "g",
    { class: "side" },
    svg("rect", { x, y: top, width, height: ROW - 6, rx: 4, class: "whole" }),
    total
      ? svg("rect", {
          x,
          y: top,
          width: Math.max(0, Math.min(1, used / total)) * width,
          height: ROW - 6,
          rx: 4,
          class: "share",
        })
      : null,
    svg("text", { x: x + 6, y: y + 4 }, name.length > fits ? `${name.slice(0, Math.max(3, fits - 1))}…` : name),
    svg("text", { x: x + width - 6, y: y + 4, "text-anchor": "end" }, amounts),
  );
}
