// The last cycles that decided something: who was placed where, who had to go, for whom, by which action and why.

import { h, head, name, table } from "./dom.js";
import { clock, count, few, many, seconds } from "./format.js";
import { toHyperNode, toJob } from "./route.js";

export function drawCycles(view) {
  const { cycles } = view.board;
  return [
    head("Cycles", h("span", { class: "soft" }, "the newest first; those that decided nothing are left out")),
    cycles.map((cycle, i) =>
      h(
        "details",
        {
          "data-key": `cycle-${cycle.number}`,
          open: i === 0 || cycle.evicted || i === cycles.findIndex((c) => c.placed),
        },
        h(
          "summary",
          {},
          h("b", {}, `cycle ${count(cycle.number)}`),
          h("span", { class: "soft" }, ` ${clock(cycle.now)}  `),
          summary(cycle),
        ),
        cycle.evictions.length ? evictions(view, cycle) : null,
        cycle.decisions.length ? decisions(view, cycle) : null,
        h("p", { class: "soft num" }, work(cycle)),
      ),
    ),
  ];
}

function summary(cycle) {
  const texts = [
    cycle.placed ? `${many(cycle.placed, "job")} given a place, ${many(cycle.pods, "pod")} bound` : "nothing to place",
    cycle.evicted ? h("span", { class: "bad" }, `, ${many(cycle.evicted, "pod")} evicted`) : null,
    cycle.waiting ? h("span", { class: "warn" }, `, ${many(cycle.waiting, "job")} refused`) : null,
  ];
  return texts;
}

function work(cycle) {
  const stages = Object.entries(cycle.seconds).map(([stage, value]) => `${stage} ${seconds(value)}`);
  return [`${many(cycle.work.hyperNodes, "domain")} looked at`, many(cycle.work.trials, "trial"), ...stages].join(
    " · ",
  );
}

function job(view, key) {
  const [called, path] = view.board.names[key] ?? [key, key];
  return h("a", { href: toJob(view.route, path) }, name(called));
}

function decisions(view, cycle) {
  return [
    table(
      [
        ["job", (d) => job(view, d.job)],
        ["pods", (d) => count(d.pods), "num"],
        [
          "in",
          (d) =>
            d.hyperNode
              ? h("a", { href: toHyperNode(view.route, d.hyperNode) }, name(d.hyperNode))
              : "the whole cluster",
        ],
        ["tier", (d) => (d.hyperNode ? String(d.tier) : ""), "num"],
        ["by", (d) => d.action],
        ["outcome", (d) => (d.bound ? "bound" : "kept until resources are released")],
        ["decision", (d) => h("code", {}, d.id)],
      ],
      cycle.decisions,
      { "aria-label": `Placed in cycle ${cycle.number}` },
    ),
    cycle.placed > cycle.decisions.length
      ? h("p", { class: "soft" }, `and ${count(cycle.placed - cycle.decisions.length)} more`)
      : null,
  ];
}

function evictions(view, cycle) {
  return table(
    [
      ["evicted", (e) => [h("span", { class: "bad" }, many(e.pods.length, "pod")), " of ", job(view, e.job)]],
      ["for", (e) => (e.by ? job(view, e.by) : "nobody: given back")],
      ["by", (e) => e.action],
      ["because", (e) => e.reason, "grow"],
      ["pods", (e) => few(e.pods), "long"],
    ],
    cycle.evictions,
    { "aria-label": `Evicted in cycle ${cycle.number}` },
  );
}
