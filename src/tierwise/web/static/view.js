// What there is to draw for a state of the page: the last answers, and what follows from them and the address. The parts
// of the page get this and nothing else.

import { treeOf, zoomOf } from "./addresses.js";
import { Fabric } from "./fabric.js";

/** What became of the pods that the shown cycles placed, by where the board comes from. */
const WORDS = {
  manifests: {
    fresh: "placed",
    kept: "kept a place",
    leaving: "leaving",
    keeps: "a place is kept until resources are released",
  },
  cluster: {
    fresh: "placed",
    kept: "would be placed now",
    leaving: "leaving",
    keeps: "a cycle on this state would place it",
  },
  recording: {
    fresh: "placed at this moment",
    kept: "kept a place",
    leaving: "leaving",
    keeps: "a place is kept until resources are released",
  },
  scheduler: {
    fresh: "placed in the last cycle",
    kept: "kept a place",
    leaving: "leaving",
    keeps: "a place is kept until resources are released",
  },
};

/** What the answers say, seen from the address; `acts` is what somebody can do, and what is worked out for them.
 *
 * @param {Answers} answers
 * @param {Route} route
 * @param {number} width that there is for the map */
export function viewOf(answers, route, width, acts) {
  const { board, story, nodes } = answers;
  const resource = board.resources.includes(route.resource) ? route.resource : board.resources[0];
  const live = ["cluster", "scheduler"].includes(board.mode) && !route.at;
  const tree = treeOf(board, route);
  const lit = story?.hyperNodes[tree] ?? [];
  return {
    ...answers,
    ...acts,
    route,
    tree,
    resource,
    zoom: zoomOf(board, route),
    fabric: new Fabric(board.fabrics[tree], resource, route.show === "fragmented"),
    first: new Fabric(board.fabrics[0], resource),
    at: board.resources.indexOf(resource),
    words: WORDS[board.mode],
    now: live ? Math.max(board.now, Date.now() / 1000) : board.now,
    width: Math.max(280, width),
    jobKey: story?.key ?? "",
    names: nodes?.names ?? {},
    nodes: nodes?.nodes ?? null,
    nodeCount: nodes?.count ?? 0,
    lights: lit.length ? new Map(lit) : null,
    fitting: answers.fits?.trees ? new Map(answers.fits.trees[tree].lit) : null,
    tried: new Map(
      (lit.length ? [] : (story?.why?.tried ?? []))
        .filter((t) => t.bestIndex > 0 && t.fabric === tree)
        .map((t) => [t.bestIndex, `${t.fits}/${t.asked}`]),
    ),
    asks: board.whatIf || route.changes !== "",
  };
}
