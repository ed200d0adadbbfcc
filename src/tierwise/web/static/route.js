// Where the page is: #/, #/jobs/NAMESPACE/NAME or #/nodes/NAME, then ?in=DOMAIN&resource=NAME&q=WORDS&… Every state has
// a link that leads there.

const ASKED = {
  show: "show",
  fits: "fits",
  fabric: "fabric",
  domain: "in",
  resource: "resource",
  filter: "q",
  queue: "queue",
  verdict: "verdict",
  reason: "reason",
  sort: "sort",
  order: "order",
  at: "at",
  during: "during",
  run: "run",
  changes: "if",
  asking: "asking",
  table: "table",
  find: "find",
  by: "by",
  tier: "tier",
};

/** The state that an address stands for.
 *
 * @param {string} hash
 * @returns {Route} */
export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const asked = new URLSearchParams(query);
  const [kind, ...rest] = path.split("/");
  const name = rest.map(decoded).join("/");
  /** @type {Any} */
  const route = { job: kind === "jobs" ? name : "", node: kind === "nodes" ? name : "" };
  for (const [field, word] of Object.entries(ASKED)) route[field] = asked.get(word) ?? "";
  return route;
}

function decoded(word) {
  try {
    return decodeURIComponent(word);
  } catch {
    return word;
  } // a stray % stands for itself
}

/** The link to a state; what is empty is left out. */
export function link(/** @type {Any} */ route) {
  const query = new URLSearchParams();
  for (const [field, word] of Object.entries(ASKED)) if (route[field]) query.set(word, route[field]);
  const named = (kind, name) => `${kind}/${name.split("/").map(encodeURIComponent).join("/")}`;
  const path = route.job ? named("jobs", route.job) : route.node ? named("nodes", route.node) : "";
  return `#/${path}${query.size ? `?${query}` : ""}`;
}

/** Links from a state to a job, to a node, to a domain. */
export const toJob = (route, job) => link({ ...route, job, node: "" });
export const toNode = (route, node) => link({ ...route, node, job: "" });
export const toDomain = (route, domain) => link({ ...route, domain });
/** The same to many domains: what their links share is written once. */
export function domainLinks(route) {
  const here = toDomain(route, "");
  return (domain) => `${here}${here.includes("?") ? "&" : "?"}${ASKED.domain}=${encodeURIComponent(domain)}`;
}
/** A domain by name of the tree that rows follow, whichever fabric is shown. */
export const toHyperNode = (route, domain) => link({ ...route, fabric: "", domain });
export const closed = (route) => link({ ...route, job: "", node: "" });
