// What the page asks the server for, as a state of the page needs it: of a past moment, or with changes.

const FIRST = 60; // jobs of a list that are asked for at first
const FEW = 24; // so many jobs that wait can be read one by one

/** A name in an address. */
export const path = (name) => name.split("/").map(encodeURIComponent).join("/");

/** The address of something as a state of the page asks for it.
 *
 * @param {string} what
 * @param {Partial<Route>} route
 * @param {Record<string, string>} asked */
export function address(what, route, asked = {}) {
  const query = new URLSearchParams(asked);
  if (route.run) query.set("run", route.run);
  if (route.at) query.set("at", route.at);
  if (route.changes) query.set("if", route.changes);
  return `/api/${what}${query.size ? `?${query}` : ""}`;
}

/** The number of the tree that the address asks for; the first one is that of rows. */
export function treeOf(board, route) {
  return Math.max(
    0,
    board.fabrics.findIndex((fabric) => fabric.title === route.fabric),
  );
}

/** The domain that the address opens, in the tree that it asks for. */
export function zoomOf(board, route) {
  const found = board.fabrics[treeOf(board, route)].name.indexOf(route.domain);
  return found > 0 ? found : 0;
}

/** Whether jobs that wait are told of reason by reason: where there are many, and nobody has asked for another order. */
export function byReason(route, waiting) {
  return waiting > FEW && !(route.sort || route.reason || route.filter);
}

/** One of the two lists of jobs, with so many more than at first; many that wait reason by reason. */
export function listAddress(name, route, more, waiting = 0) {
  const grouped = name === "waiting" && byReason(route, waiting);
  /** @type {Record<string, string>} */
  const asked = { state: name, limit: grouped ? "0" : String(FIRST + more), ...(grouped ? { first: "3" } : {}) };
  if (route.filter) asked.q = route.filter;
  if (route.queue) asked.queue = route.queue;
  if (name === "waiting") for (const field of ["verdict", "reason"]) if (route[field]) asked[field] = route[field];
  const sort = name === "waiting" ? route.sort : route.order;
  if (sort) asked.sort = sort;
  return address("jobs", route, asked);
}
