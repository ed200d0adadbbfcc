// The nodes of an innermost domain as a table: what each has in use, and whose pods stand there.

import { gauge, h, head, table } from "./dom.js";
import { count, many, short, unit } from "./format.js";
import { link } from "./route.js";

const FIRST = 100;

export function drawNodes(view) {
  const { nodes, at, resource, jobNames, jobPaths, route } = view;
  const shown = nodes.slice(0, view.moreNodes ? nodes.length : FIRST);
  const jobs = (node) => Object.entries(node.jobs).map(([key, pods], i) => [i ? ", " : "",
    h("a", { href: link({ ...route, job: jobPaths.get(key) ?? key }) }, jobNames.get(key) ?? key),
    h("span", { class: "soft" }, pods > 1 ? ` ×${pods}` : "")]);
  return h("div", { class: "nodes" }, head("Nodes", h("span", { class: "soft" }, many(view.nodeCount, "node"))),
    table([
      ["node", (node) => [node.name, node.state ? h("span", { class: "chip warn" }, node.state) : null], "long"],
      [`${unit(resource)} in use`, (node) => `${short(resource, node.amounts.used[at])} / ${short(resource, node.amounts.total[at])}`, "num"],
      ["", (node) => gauge(node.amounts.used[at], node.amounts.total[at], node.amounts.new[at])],
      ["jobs", jobs, "grow"],
    ], shown),
    shown.length < nodes.length ? h("button", { class: "more", "data-key": "more-nodes", on: { click: view.showNodes } }, `Show all ${count(nodes.length)}`) : null);
}
