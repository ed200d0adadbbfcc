// Queues: what each uses of what it deserves and may use, and how many jobs wait in it.

import { gauge, h, head, table } from "./dom.js";
import { count, percent, short, unit } from "./format.js";

/** The columns in which some queue has something to say. */
function told(columns, queues) {
  return columns.filter(([, cell]) => queues.some((queue) => cell(queue) !== "–"));
}

export function drawQueues({ board, fabric, resource, at }) {
  const total = fabric.sum("total", 0);
  const amount = (value) => (value === null ? "–" : short(resource, value));
  const limit = (queue) => queue.capability[at] ?? total;
  return [
    head("Queues", h("span", { class: "soft" }, `${unit(resource)}; the mark is what a queue deserves`)),
    board.queues.length ? table(told([
      ["queue", (q) => [q.parent && q.parent !== "root" ? h("span", { class: "soft" }, `${q.parent} › `) : null, q.name,
        q.open ? null : h("span", { class: "chip warn" }, "closed")], "long"],
      ["used", (q) => amount(q.used[at]), "num"],
      ["(share)", (q) => gauge(q.used[at] ?? 0, limit(q), 0, q.deserved[at]), "grow"],
      ["deserved", (q) => amount(q.deserved[at]), "num"],
      ["share", (q) => (q.share === null ? "–" : percent(q.share)), "num"],
      ["may use", (q) => amount(q.capability[at]), "num"],
      ["guaranteed", (q) => amount(q.guarantee[at]), "num"],
      ["weight", (q) => String(q.weight), "num"],
      ["waiting", (q) => h("span", { class: q.waiting ? "warn" : "soft" }, count(q.waiting)), "num"],
    ], board.queues), board.queues) : h("p", { class: "soft" }, "There are no queues."),
  ];
}
