// Queues and quotas as trees: what each uses of its own and what it has borrowed, what it deserves, is guaranteed and
// may use, how many jobs wait in it, and what it used over time.

import { h, head, name, svg, table, unseen } from "./dom.js";
import { count, percent, short, unit } from "./format.js";
import { link } from "./route.js";
import { asking } from "./whatif.js";

const FIRST = 60; // queues that are listed at first

/** The columns in which some queue has something to say. */
function told(columns, queues) {
  return columns.filter(([title, cell]) => title.startsWith("(") || queues.some((queue) => cell(queue) !== "–"));
}

export function drawQueues(view) {
  const { board, first, resource, at } = view;
  const total = first.sum("total", 0);
  const amount = (value) => (value === null ? "–" : short(resource, value));
  const some = (value) => (value ? short(resource, value) : "–");
  const top = Math.max(
    1,
    ...board.queues
      .flatMap((q) => [q.used[at], q.deserved[at], q.guarantee[at], Math.min(q.capability[at] ?? 0, total)])
      .filter(Number.isFinite),
  );
  const shown = board.queues.slice(0, view.moreQueues ? board.queues.length : FIRST);
  const series = at === 0 ? (view.overTime?.queues ?? {}) : {}; // kept of the resource that people look at first
  return [
    head("Queues", h("span", { class: "soft" }, unit(resource)), legend(shown, at)),
    board.queues.length
      ? table(
          told(
            [
              ["queue", (q) => title(view, q), "queue"],
              ["waiting", (q) => h("span", { class: q.waiting ? "warn" : "soft" }, count(q.waiting)), "num"],
              ["used", (q) => amount(q.used[at]), "num"],
              ["(bar)", (q) => bar(q, at, top), "grow"],
              ["borrowed", (q) => (q.borrowed[at] ? h("span", { class: "warn" }, amount(q.borrowed[at])) : "–"), "num"],
              ["deserved", (q) => amount(q.deserved[at]), "num"],
              ["share", (q) => (q.share === null ? "–" : percent(q.share)), "num"],
              ["guaranteed", (q) => some(q.guarantee[at]), "num"],
              ["may use", (q) => amount(q.capability[at]), "num"],
              ["kept idle", keptIdle, "num"],
              ["weight", (q) => (q.elastic ? "–" : String(q.weight)), "num"],
              ...(Object.keys(series).length && view.overTime.moments.length > 1
                ? [["over time", (q) => line(series[q.name], q, resource, top), "num"]]
                : []),
            ],
            shown,
          ),
          shown,
          { "aria-label": "Queues and quotas" },
        )
      : h("p", { class: "soft" }, "There are no queues."),
    shown.length < board.queues.length
      ? h(
          "button",
          { class: "more", "data-key": "more-queues", on: { click: view.showQueues } },
          `Show all ${count(board.queues.length)}`,
        )
      : null,
  ];
}

/** Nodes that are kept idle for its jobs, and the node-hours that their namespaces have used of their shares. */
function keptIdle(q) {
  if (!q.idle.length) return "–";
  const sum = (field) => q.idle.reduce((all, one) => all + one[field], 0);
  const each = q.idle.map((one) => `${one.namespace}: ${one.nodes} nodes, ${one.nodeHours} node-hours`);
  return h("span", { title: each.join("\n") }, `${sum("nodes").toFixed(1)} nodes, ${sum("nodeHours").toFixed(1)} h`);
}

/** Whether a queue uses more than it may, or more than it deserves. */
export function excess(q, at) {
  const [used, may, deserved] = [q.used[at] ?? 0, q.capability[at], q.deserved[at]];
  if (may !== null && used > may) return "above its limit";
  return deserved && used > deserved ? "above its share" : "";
}

function title(view, q) {
  const beyond = excess(q, view.at);
  const { route } = view;
  const chosen = route.queue === q.name;
  return h(
    "span",
    { class: "leaf", vars: { depth: q.depth } },
    h(
      "a",
      {
        href: link({ ...route, queue: chosen ? "" : q.name }),
        "aria-current": chosen ? "true" : null,
        title: chosen ? "Show the jobs of all queues" : `Show the jobs of ${q.name}`,
      },
      name(q.name),
    ),
    beyond ? h("span", { class: `chip ${beyond.endsWith("limit") ? "solid bad" : "warn"}` }, beyond) : null,
    q.parent && q.depth ? unseen(`, below ${q.parent}`) : null,
    view.asks && !q.elastic && (view.route.asking || view.route.changes)
      ? h(
          "a",
          {
            class: "add",
            href: asking(view.route, "quota", `${q.name}:${view.resource}=`),
            title: `Change what ${q.name} may use`,
            "aria-label": `Change the quota of ${q.name}`,
          },
          "change",
        )
      : null,
    q.path ? h("span", { class: "soft", title: "its path for hierarchical fairness" }, ` ${q.path}`) : null,
    q.tree ? h("span", { class: "soft" }, ` tree ${q.tree}`) : null,
    q.open ? null : h("span", { class: "chip warn" }, "closed"),
  );
}

/** What a queue uses on the scale of all: its own, what it borrowed, and marks at what it deserves and is guaranteed. */
function bar(q, at, top) {
  const part = (value) => Math.min(1, Math.max(0, (value ?? 0) / top));
  const [used, borrowed] = [q.used[at] ?? 0, q.borrowed[at] ?? 0];
  const mark = (value, kind) => (value ? h("u", { class: kind, vars: { m: part(value) } }) : null);
  const limit = q.capability[at] !== null && used > q.capability[at] ? q.capability[at] : 0; // told where it is passed
  return h(
    "span",
    {
      class: `gauge marked quota${q.capability[at] !== null && used > q.capability[at] ? " over" : ""}`,
      "aria-hidden": "true",
      vars: { u: part(used), b: part(used - borrowed), c: q.capability[at] === null ? 1 : part(q.capability[at]) },
    },
    h("s"),
    h("i"),
    h("i"),
    mark(q.guarantee[at], "guarantee"),
    mark(q.deserved[at], "deserved"),
    mark(limit, "limit"),
  );
}

function legend(queues, at) {
  const marks = [
    ["own", "own", true],
    ["borrowed", "borrowed", queues.some((q) => q.borrowed[at])],
    ["deserved", "deserved", queues.some((q) => q.deserved[at])],
    ["guaranteed", "guarantee", queues.some((q) => q.guarantee[at])],
  ];
  return h(
    "ul",
    { class: "parts" },
    marks
      .filter(([, , there]) => there)
      .map(([text, kind]) => h("li", {}, h("span", { class: `swatch quota-${kind}`, "aria-hidden": "true" }), text)),
  );
}

/** What a queue used at the moments that are kept. */
function line(values, q, resource, top) {
  if (!values) return "–";
  const x = (i) => ((i / Math.max(1, values.length - 1)) * 80).toFixed(1),
    y = (v) => (19 - (Math.min(v, top) / top) * 17).toFixed(1);
  const d = values.map((v, i) => `${i ? "L" : "M"}${x(i)} ${y(v)}`).join("");
  const label = `${q.name} used between ${short(resource, Math.min(...values))} and ${short(resource, Math.max(...values))}, at last ${short(resource, values.at(-1))}`;
  return svg(
    "svg",
    { class: "spark", viewBox: "0 0 80 20", width: 80, height: 20, role: "img", "aria-label": label },
    svg("title", {}, label),
    svg("path", { d: `${d}L80 20L0 20Z`, class: "under" }),
    svg("path", { d, class: "line" }),
  );
}
