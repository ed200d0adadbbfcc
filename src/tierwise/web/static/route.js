// Where the page is: #/ or #/jobs/NAMESPACE/NAME, then ?in=DOMAIN&resource=NAME. Every state has a link that leads there.

export function parse(hash) {
  const [path, query = ""] = hash.replace(/^#\/?/, "").split("?", 2);
  const asked = new URLSearchParams(query);
  const [kind, ...rest] = path.split("/");
  return {
    job: kind === "jobs" && rest.length ? rest.map(decoded).join("/") : "",
    domain: asked.get("in") ?? "",
    resource: asked.get("resource") ?? "",
  };
}

function decoded(word) {
  try { return decodeURIComponent(word); } catch { return word; } // a stray % stands for itself
}

/** The link to a state; what is empty is left out. */
export function link({ job = "", domain = "", resource = "" }) {
  const query = new URLSearchParams();
  if (domain) query.set("in", domain);
  if (resource) query.set("resource", resource);
  const path = job ? `jobs/${job.split("/").map(encodeURIComponent).join("/")}` : "";
  return `#/${path}${query.size ? `?${query}` : ""}`;
}
