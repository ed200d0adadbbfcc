// Nodes: those of an innermost domain as a table, and one of them with all its facts.

import { Fabric } from "./fabric.js";
import { command, gauge, h, head, name, table } from "./dom.js";
import { count, many, short, unit } from "./format.js";
import { questions } from "./whatif.js";
import { closed, toDomain, toJob, toNode } from "./route.js";

const FIRST = 100;

export function drawNodes(view) {
  const { nodes, at, resource, names, route } = view;
  const shown = nodes.slice(0, view.moreNodes ? nodes.length : FIRST);
  const jobs = (node) =>
    Object.entries(node.jobs).map(([key, pods], i) => [
      i ? ", " : "",
      h("a", { href: toJob(route, names[key]?.[1] ?? key) }, name(names[key]?.[0] ?? key)),
      h("span", { class: "soft" }, pods > 1 ? ` ×${pods}` : ""),
    ]);
  return h(
    "div",
    { class: "nodes" },
    head("Nodes", h("span", { class: "soft" }, many(view.nodeCount, "node"))),
    table(
      [
        ["node", (node) => [h("a", { href: toNode(route, node.name) }, name(node.name)), states(node)], "long"],
        [
          `${unit(resource)} in use`,
          (node) => `${short(resource, node.amounts.used[at])} / ${short(resource, node.amounts.total[at])}`,
          "num",
        ],
        ["(share)", (node) => gauge(node.amounts.used[at], node.amounts.total[at], node.amounts.new[at])],
        ["jobs", jobs, "grow"],
      ],
      shown,
    ),
    shown.length < nodes.length
      ? h(
          "button",
          { class: "more", "data-key": "more-nodes", on: { click: view.showNodes } },
          `Show all ${count(nodes.length)}`,
        )
      : null,
  );
}

function states(node) {
  return [
    node.state ? h("span", { class: "chip warn" }, node.state) : null,
    node.over ? h("span", { class: "chip bad" }, "overcommitted") : null,
    Object.entries(node.marks ?? {}).map(([mark, text]) => h("span", { class: "chip warn", title: text }, mark)),
  ];
}

export function drawNode(view) {
  const { node, route, board, fabric } = view;
  const close = h("a", { class: "close", href: closed(route), "aria-label": "Close the node (Esc)" }, "✕ close");
  if (!node)
    return [
      close,
      h("h2", { tabindex: "-1" }, route.node),
      h("p", { class: "warn" }, route.at ? "There was no such node at this moment." : "There is no such node now."),
    ];
  const place = (trees, number) => {
    // the way down to the node on a tree
    const on = number === view.tree ? route : { ...route, fabric: number ? trees.columns.title : "" };
    const path = trees.path(node.hyperNodes[number]).slice(1);
    return path.length
      ? path.map((d, i) => [i ? " › " : "", h("a", { href: toDomain(on, trees.name(d)) }, trees.name(d))])
      : "no domain";
  };
  const called = (key) => node.names[key] ?? [key, key];
  return h(
    "div",
    { class: "story" },
    close,
    h("h2", { tabindex: "-1" }, name(node.name), states(node)),
    h("p", { class: "soft" }, "node in ", place(fabric, view.tree)),
    board.fabrics.map((columns, number) =>
      number === view.tree
        ? null
        : h("p", { class: "soft" }, `${columns.title}: `, place(new Fabric(columns, view.resource), number)),
    ),
    table(
      [
        ["resource", (r) => board.resources[r], "long"],
        ["in use", (r) => short(board.resources[r], node.amounts.used[r]), "num"],
        ["of", (r) => short(board.resources[r], node.amounts.total[r]), "num"],
        ["free", (r) => short(board.resources[r], node.amounts.free[r]), "num"],
        ["(share)", (r) => gauge(node.amounts.used[r], node.amounts.total[r], node.amounts.new[r])],
      ],
      board.resources.map((_, r) => r),
      { "aria-label": "Amounts" },
    ),
    h("h3", {}, node.count ? `Pods of jobs (${count(node.count)})` : "No job has a pod here"),
    node.pods.length
      ? table(
          [
            ["pod", (pod) => pod.pod, "long"],
            ["job", (pod) => h("a", { href: toJob(route, called(pod.job)[1]) }, name(called(pod.job)[0])), "long"],
            [
              "state",
              (pod) => (pod.how === "running" ? "running" : pod.how === "new" ? view.words.fresh : view.words[pod.how]),
            ],
          ],
          node.pods,
        )
      : null,
    Object.values(node.marks ?? {}).map((text) => h("p", { class: "warn" }, text)),
    node.taints.length
      ? [
          h("h3", {}, "Taints"),
          h(
            "ul",
            {},
            node.taints.map((taint) => h("li", {}, h("code", {}, taint))),
          ),
        ]
      : null,
    route.at && !view.history.whole
      ? h(
          "p",
          { class: "soft" },
          "Labels and taints are told of now alone. ",
          h("a", { href: toNode({ ...route, at: "", during: "" }, node.name) }, "Show the node as it is now"),
        )
      : null,
    h(
      "details",
      { "data-key": "labels", hidden: !Object.keys(node.labels).length },
      h("summary", {}, many(Object.keys(node.labels).length, "label")),
      h(
        "dl",
        { class: "labels" },
        Object.entries(node.labels).map(([key, value]) => [h("dt", {}, key), h("dd", {}, value || "–")]),
      ),
    ),
    questions(view, "What if", [
      node.state === "cordoned"
        ? ["it took pods again", "uncordon", node.name]
        : ["it were cordoned", "cordon", node.name],
      ["it were drained", "drain", node.name],
      ["it were gone", "remove", node.name],
      ["there were one more like it", "add-nodes", `1=${node.name}`],
    ]),
    board.mode === "manifests"
      ? null
      : [h("h3", {}, "On the command line"), command(`kubectl describe node ${node.name}`)],
  );
}
