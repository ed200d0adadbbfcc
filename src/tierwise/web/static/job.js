// The whole story of one job, as `tierwise explain --job` tells it: the sentence that decides, limits, search, causes,
// what nodes say to it, places, evictions.

import { command, gauge, h, name, table, verdict } from "./dom.js";
import { axisOf, ganttRow } from "./eta.js";
import { age, few, many, short, unit } from "./format.js";
import { drawLife } from "./life.js";
import { drawNear } from "./near.js";
import { callsOf } from "./services.js";
import { jobQuestions, least } from "./whatif.js";
import { closed, link, toDomain, toJob, toNode } from "./route.js";

export function drawJob(view) {
  const { story, route } = view;
  const close = h("a", { class: "close", href: closed(route), "aria-label": "Close the job (Esc)" }, "✕ close");
  if (!story)
    return [
      close,
      h("h2", { tabindex: "-1" }, name(route.job)),
      route.at && !view.history.whole
        ? past(view)
        : h("p", { class: "warn" }, route.at ? "There is no such job at this moment." : "There is no such job now."),
    ];
  const { line } = story;
  const home = line?.hyperNodes[0] ?? -1;
  const said = texts(story.why); // why no room was made is told there
  const making = story.eviction.filter((told) => !told.obstacle || !said.includes(told.obstacle));
  return h(
    "div",
    { class: "story" },
    close,
    h("h2", { tabindex: "-1" }, name(story.name), line ? state(view, line) : null),
    line ? h("p", { class: "soft" }, numbers(view, line)) : null,
    line?.waiting ? h("p", { class: "said" }, verdict(line.verdict), " ", line.decisive) : null,
    line && home >= 0
      ? h(
          "p",
          {},
          line.kept && !line.pods ? "Place: " : "Runs in ",
          domain(view, home, 0),
          ` ${view.first.tier(home)}`,
          view.tree && line.hyperNodes[view.tree] > 0
            ? ["; on ", h("b", {}, view.fabric.columns.title), " in ", domain(view, line.hyperNodes[view.tree])]
            : null,
        )
      : null,
    story.constraints.length ? [h("h3", {}, "Constraints on fabrics"), constraints(view, story.constraints)] : null,
    drawLife(view),
    story.why ? [h("h3", {}, "Why it waits"), rejection(view, story.why, story.key)] : null,
    line?.waiting ? drawNear(view, story) : null,
    line?.waiting ? nodesFor(view) : null,
    line?.waiting && view.asks ? expected(view) : null,
    line?.waiting && view.asks && !line.lone ? least(view) : null,
    jobQuestions(view, line?.path ?? story.key),
    making.length ? [h("h3", {}, "Making room"), making.map((told) => eviction(view, told))] : null,
    story.evictions.length ? [h("h3", {}, "Evicted pods"), evicted(view, story.evictions)] : null,
    story.places[view.tree].length ? [h("h3", {}, "Where its pods are"), places(view, story.places[view.tree])] : null,
    story.sets.map((rule) => [h("h3", {}, `Set ${rule.set}`), set(view, rule)]),
    story.subGroups.length
      ? h(
          "details",
          { "data-key": "parts", open: !story.places[view.tree].length },
          h("summary", {}, many(story.subGroups.length, story.partWord)),
          parts(view, story.subGroups),
        )
      : null,
    story.services.map(([name, workload]) => {
      const group = view.board.services?.groups.find((found) => found.name === name);
      return group ? [h("h3", {}, `What ${workload} calls, and what calls it`), callsOf(view, group, workload)] : null;
    }),
    story.search.length
      ? [
          h("h3", {}, "How its place was found"),
          h(
            "ul",
            {},
            story.search.map((text) => h("li", {}, text)),
          ),
        ]
      : null,
    h("h3", {}, "What it asks for"),
    h(
      "dl",
      {},
      story.facts.map(([title, text]) => [h("dt", {}, title), h("dd", {}, text)]),
    ),
    view.board.mode === "recording" && !view.board.options
      ? null
      : [h("h3", {}, "On the command line"), commands(view, line)],
  );
}

const texts = (why) => (why ? [why.text, ...why.children.flatMap(texts)] : []);

/** Of a past moment the line of a job is kept, not its story. */
function past(view) {
  const { route, lists } = view;
  const line = [...lists.waiting.list, ...lists.running.list].find(
    (job) => job.path === route.job || job.key === route.job,
  );
  return [
    line
      ? h("p", {}, state(view, line))
      : h("p", { class: "warn" }, "It is not among the jobs that are listed of this moment."),
    line?.waiting ? h("p", { class: "said" }, verdict(line.verdict), " ", line.message) : null,
    drawLife(view),
    h(
      "p",
      { class: "soft" },
      "Of past moments the map and the lists are kept. ",
      h("a", { href: toJob({ ...route, at: "" }, route.job) }, "Show the job as it is now"),
    ),
  ];
}

/** Commands that see the same objects; a pod that is nobody's gang is explained by its own name. */
function commands({ board, story }, line) {
  const options = board.options ? ` ${board.options}` : "";
  const what = story.pod || `--job ${line?.path ?? story.key}`;
  return command(`tierwise explain${options} ${what}`);
}

function state(view, line) {
  const chips = [
    [line.waiting, "waiting", "warn"],
    [line.pods - line.new - line.leaving, "running", "good"],
    [line.new, view.words.fresh, "good"],
    [line.leaving, "leaving", "bad"],
    [line.kept, view.words.kept, "warn"],
  ];
  return chips.map(([number, text, kind]) =>
    number > 0 ? h("span", { class: `chip ${kind}` }, `${number} ${text}`) : null,
  );
}

function numbers(view, line) {
  const { resource, at } = view;
  const texts = [
    `queue ${line.queue || "none"}`,
    line.priority ? `priority ${line.priority}` : "",
    `phase ${line.phase}`,
    line.created > 0 && line.created <= view.now ? `${age(view.now - line.created)} old` : "",
    line.used[at] ? `${short(resource, line.used[at])} ${unit(resource)} in use` : "",
    line.asks[at] ? `${short(resource, line.asks[at])} ${unit(resource)} asked for` : "",
  ];
  return texts.filter(Boolean).join(" · ");
}

/** A link to a domain of a fabric in the map; the whole cluster, and what has no place, in words. */
function domain(view, d, tree = view.tree) {
  const { title, name: names } = view.board.fabrics[tree];
  if (d < 0) return "–";
  return h(
    "a",
    { href: toDomain({ ...view.route, fabric: tree ? title : "" }, d ? names[d] : "") },
    d ? name(names[d]) : "the whole cluster",
  );
}

/** What it has to keep to on which fabric, and where that leads it. */
function constraints(view, found) {
  const { board, route } = view;
  const fabric = (c) =>
    c.fabric < 0
      ? h("span", { class: "bad" }, "no such fabric")
      : h(
          "a",
          {
            href: link({ ...route, fabric: c.fabric ? board.fabrics[c.fabric].title : "", domain: "" }),
            "aria-current": c.fabric === view.tree ? "true" : null,
          },
          board.fabrics[c.fabric].title,
        );
  const where = (c) =>
    c.places.length
      ? [
          c.places
            .slice(0, 8)
            .map(([name, domains], i) => [
              i ? "; " : "",
              name ? `${name}: ` : "",
              domains.map((d, n) => [n ? ", " : "", domain(view, d, c.fabric)]),
            ]),
          c.groups > Math.min(8, c.places.length) && c.places.length > 8 ? ` and ${c.groups - 8} more` : "",
        ]
      : "–";
  return table(
    [
      [
        "asks for",
        (c) => [
          c.text,
          c.whose ? h("div", { class: "soft" }, c.whose) : null,
          c.hard ? null : h("span", { class: "chip" }, "soft"),
        ],
        "long",
      ],
      ["fabric", fabric],
      ["is in", where, "long grow"],
    ],
    found,
    { "aria-label": "Constraints on fabrics" },
  );
}

/** One rule about a set: where each part stands, and which domains are open to this gang. */
function set(view, rule) {
  const gang = (key) => h("a", { href: toJob(view.route, key) }, key.split("/").pop());
  const part = (title) => {
    const gangs = rule.gangs[title] ?? [];
    const links = gangs.map((key, i) => [i ? ", " : "", gang(key)]);
    return gangs.length === 1 && gangs[0].endsWith(`/${title}`) ? links : [title, " (", links, ")"];
  };
  const all = (titles) => titles.map((title, i) => [i ? ", " : "", part(title)]);
  return [
    h("p", {}, rule.rule),
    table(
      [
        ["domain", (d) => domain(view, d.index, rule.fabric), "long"],
        ["parts", (d) => all(d.parts), "long"],
        ["this gang", (d) => h("span", { class: d.open ? null : "warn" }, d.text), "grow"],
      ],
      rule.domains,
      { "aria-label": `Domains of set ${rule.set}` },
    ),
    rule.more ? h("p", { class: "soft" }, `and ${many(rule.more, "other domain")}`) : null,
    rule.waiting.length ? h("p", { class: "soft" }, "Without a place: ", all(rule.waiting)) : null,
  ];
}

function rejection(view, why, whole) {
  const nested = why.children.map((child) =>
    h(
      "div",
      { class: "nested" },
      h(
        "b",
        {},
        child.subject === whole ? child.plugin : `${child.part || "sub-group"} ${child.subject.split("/").pop()}`,
      ),
      " ",
      rejection(view, child, whole),
    ),
  );
  return [
    h("p", {}, h("span", { class: "warn" }, why.reason), `: ${why.text}`),
    why.cure ? h("p", { class: "soft" }, `What to do: ${why.cure} (${why.reference})`) : null,
    why.tried.length
      ? h(
          "ol",
          { class: "ladder", "aria-label": "Tiers that were tried, the widest first" },
          [...why.tried].reverse().map((t) => rung(view, t)),
        )
      : null,
    why.bounded ? h("p", { class: "soft" }, "The search stopped at its bound, so a place may exist.") : null,
    nested,
  ];
}

/** A tier of the ladder: its best domain, filled as far as the pods fit, and what is missing. */
function rung(view, t) {
  const best = t.bestIndex >= 0 ? domain(view, t.bestIndex, t.fabric) : name(t.best);
  return h(
    "li",
    {},
    h("b", {}, t.tierTitle),
    h("span", { class: "soft" }, t.hyperNodes > 1 ? ` best of ${t.hyperNodes}: ` : " ", best),
    h("span", { class: "num" }, `${t.fits} of ${t.asked} pods`),
    gauge(t.fits, t.asked),
    h("div", { class: "soft" }, t.short || t.told.map((text) => h("div", {}, text))),
  );
}

/** What every node says to one of its pods: asked for when somebody opens it. */
function nodesFor(view) {
  const { asked, route } = view;
  const open = (event) => {
    if (event.currentTarget.open) view.askNodes();
  };
  return h(
    "details",
    { "data-key": "nodes-for", on: { toggle: open } },
    h("summary", {}, "What each node says"),
    asked?.fault
      ? h("p", { class: "warn" }, asked.fault)
      : !asked
        ? h("p", { class: "soft" }, "Asking …")
        : asked.none
          ? h("p", { class: "soft" }, "No pod of it is tried now.")
          : [
              h(
                "p",
                {},
                `${many(asked.taking, "node")} of ${asked.count} would take pod ${asked.pod} alone, as the cluster is now.`,
              ),
              asked.best.length
                ? table(
                    [
                      ["node", (n) => h("a", { href: toNode(route, n.node) }, n.node), "long"],
                      ["score", (n) => String(n.total), "num"],
                      ...asked.plugins.map((name, i) => [name, (n) => String(n.scores[i]), "num"]),
                    ],
                    asked.best,
                    { "aria-label": "Nodes that would take it" },
                  )
                : null,
              asked.reasons.length
                ? table(
                    [
                      ["nodes", (r) => String(r.count), "num"],
                      ["do not, because", (r) => r.reason, "grow"],
                      ["which", (r) => r.nodes, "long"],
                    ],
                    asked.reasons,
                    { "aria-label": "Nodes that would not" },
                  )
                : null,
              asked.otherReasons ? h("p", { class: "soft" }, `and ${many(asked.otherReasons, "other reason")}`) : null,
            ],
  );
}

/** When it is expected to start, worked out when somebody opens it: its place, ranges, and what it depends on. */
function expected(view) {
  const { eta: own } = view;
  const open = (event) => {
    if (event.currentTarget.open) view.askEta();
    else if (view.eta?.progress) view.end("eta");
  };
  const job = own?.jobs?.[0];
  const range = (bounds) => `${moment(bounds[0])} to ${bounds[1] ? moment(bounds[1]) : "later"}`;
  return h(
    "details",
    { "data-key": "eta", on: { toggle: open } },
    h("summary", {}, "Expected start"),
    own?.progress ? h("p", { class: "soft", role: "status" }, own.progress) : null,
    own?.fault
      ? h("p", { class: "warn" }, own.fault)
      : !job
        ? null
        : [
            h("p", { class: "said" }, job.text),
            ganttRow(job, view.story.line.created, axisOf(own, [view.story.line])),
            h(
              "dl",
              {},
              [
                ["place", job.position ? `${job.position} of ${job.of} in queue ${job.queue || "none"}` : ""],
                ["50 %", job.range50 ? range(job.range50) : ""],
                ["90 %", job.range90 ? range(job.range90) : ""],
                ...job.after.map((other) => [
                  "after",
                  [
                    h("a", { href: toJob(view.route, other.name) }, other.name),
                    other.end ? ` ends ${moment(other.end)}` : " has to start first",
                    other.source ? `: ${other.source}` : "",
                  ],
                ]),
              ]
                .filter(([, text]) => text.length)
                .map(([title, text]) => [h("dt", {}, title), h("dd", {}, text)]),
            ),
            own.stopped ? h("p", { class: "soft" }, own.stopped) : null,
          ],
  );
}

/** A time of the answer as people read it, in UTC. */
const moment = (text) => `${text.slice(0, 10)} ${text.slice(11, 16)}`;

function eviction(view, told) {
  if (told.obstacle) return h("p", {}, `${told.action}: ${told.obstacle}`);
  const at = view.first.find(told.hyperNode);
  return [
    h(
      "p",
      {},
      `${told.action}: room is made in `,
      domain(view, Math.max(at, 0), 0),
      `, the cheapest of ${many(told.hyperNodes.length, "domain")} weighed`,
    ),
    table(
      [
        ["podGroup", (b) => b.podGroup],
        ["bundle", (b) => b.kind.toLowerCase()],
        ["pods", (b) => String(b.pods), "num"],
        ["efficiency", (b) => (b.efficiency === null ? "free" : b.efficiency.toFixed(2)), "num"],
        ["outcome", (b) => (b.evicted ? `${b.evicted} evicted` : "spared")],
      ],
      told.bundles,
    ),
  ];
}

function evicted(view, pods) {
  const groups = new Map(); // those who went for one other and one reason are told of together
  for (const e of pods) {
    const key = JSON.stringify([e.by, e.action, e.reason]);
    groups.set(key, { ...e, pods: [...(groups.get(key)?.pods ?? []), e.pod.split("/").pop()] });
  }
  const by = (e) =>
    h("a", { href: toJob(view.route, view.story.names[e.by]?.[1] ?? e.by) }, view.story.names[e.by]?.[0] ?? e.by);
  return h(
    "ul",
    {},
    [...groups.values()].map((e) =>
      h("li", {}, h("b", {}, few(e.pods)), ` by ${e.action}`, e.by ? [" for ", by(e)] : "", `: ${e.reason}`),
    ),
  );
}

function parts(view, found) {
  return table(
    [
      [view.story.partWord, (part) => part.name],
      ["pods", (part) => `${part.standing} of ${part.pods}`, "num"],
      ["minimum", (part) => String(part.minimum), "num"],
      ["in", (part) => domain(view, part.hyperNodes[view.tree])],
      ["tier", (part) => view.fabric.tier(part.hyperNodes[view.tree])],
    ],
    found,
  );
}

function places(view, found) {
  const columns = [
    ["domain", (place) => (place.hyperNode ? domain(view, place.hyperNode) : "no domain")],
    [view.story.partWord, (place) => place.subGroup],
    [
      "pods, by rank",
      (place) => [
        place.pods,
        place.how === "running"
          ? null
          : h("span", { class: "chip" }, place.how === "new" ? view.words.fresh : view.words[place.how]),
      ],
    ],
    ["nodes", (place) => place.nodes, "long grow"],
  ];
  return table(found.some((place) => place.subGroup) ? columns : columns.filter((_, index) => index !== 1), found);
}
