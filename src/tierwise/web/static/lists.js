// The lists of jobs: those that wait, each with the sentence that decides, and those that stand somewhere. The server
// selects, sorts and cuts them. Many that wait are listed reason by reason; equal ones of one queue are told once.

import { byReason } from "./addresses.js";
import { h, head, name, verdict } from "./dom.js";
import { axisOf, ganttRow } from "./eta.js";
import { age, count, many, short, unit, words } from "./format.js";
import { link, toJob } from "./route.js";

const SORTS = [
  ["", "queue and age"],
  ["-age", "youngest first"],
  ["age", "oldest first"],
  ["-pods", "most pods"],
  ["-amount", "largest"],
  ["-priority", "priority"],
  ["name", "name"],
  ["verdict", "reason"],
];
const FOLDED = 3; // alike entries in a row from which on the rest is folded

export function drawWaiting(view) {
  const { waiting } = view.lists;
  const queues = new Map();
  for (const job of waiting.list) queues.set(job.queue, [...(queues.get(job.queue) ?? []), job]);
  const grouped = !view.route.sort;
  if (byReason(view.route, view.board.jobs.waiting))
    return [
      listHead(view, "Waiting", waiting, view.board.jobs.waiting, "sort", SORTS),
      starts(view),
      h(
        "ul",
        { class: "jobs reasons" },
        waiting.reasons.map((entry) => ofReason(view, entry)),
      ),
    ];
  return [
    listHead(view, "Waiting", waiting, view.board.jobs.waiting, "sort", SORTS),
    waiting.reasons.length > 1 || view.route.reason ? reasons(view, waiting.reasons) : null,
    waiting.count ? starts(view) : null,
    waiting.count
      ? null
      : h("p", { class: "soft" }, view.board.jobs.waiting ? "No job that waits matches." : "Nothing waits."),
    grouped
      ? [...queues].map(([queue, jobs]) => [
          h(
            "h3",
            { class: "queue" },
            h(
              "a",
              { href: link({ ...view.route, queue: view.route.queue === queue ? "" : queue }) },
              "queue ",
              name(queue || "none"),
            ),
          ),
          h("ul", { class: "jobs" }, folded(view, jobs)),
        ])
      : h(
          "ul",
          { class: "jobs" },
          waiting.list.map((job) => h("li", { "data-key": job.key }, entryOfWaiting(view, job))),
        ),
    more(view, "waiting", waiting),
  ];
}

/** The button that asks when jobs start, or why that cannot be told. */
function starts({ asks, etas, askEtas }) {
  if (etas?.fault) return h("p", { class: "warn" }, etas.fault);
  if (etas?.progress) return h("p", { class: "soft", role: "status" }, etas.progress);
  return asks && !etas
    ? h("p", {}, h("button", { type: "button", on: { click: askEtas } }, "When do they start?"))
    : null;
}

/** All jobs that wait for one reason as one row: how many, since when, and those that wait longest. */
function ofReason(view, { verdict: word, reason, jobs, pods, since, first }) {
  const { route, now } = view;
  const all = link({ ...route, verdict: word, reason });
  const title = [verdict(word), " ", h("b", {}, reason ? words(reason) : view.words.kept)];
  return h(
    "li",
    { "data-key": `reason-${word}-${reason}` },
    h(
      "div",
      { class: "reason" },
      h("span", {}, reason ? h("a", { href: all }, title) : title),
      h("b", { class: "num" }, many(jobs, "job")),
      h(
        "span",
        { class: "num soft" },
        `${many(pods, "pod")}${since > 0 && since <= now ? ` · up to ${age(now - since)}` : ""}`,
      ),
    ),
    h(
      "ul",
      { class: "jobs" },
      first.map((job, i) => {
        const told = i > 0 && job.decisive === first[i - 1].decisive; // by the entry above it
        return h(
          "li",
          { "data-key": job.key },
          entryOfWaiting(view, { ...job, verdict: "", decisive: told ? "" : job.decisive }),
        );
      }),
    ),
    jobs > first.length && reason ? h("a", { class: "button more", href: all }, `Show all ${count(jobs)}`) : null,
  );
}

/** Entries of one queue; of those that wait for the same reason in a row the first is told, the others can be opened. */
function folded(view, jobs) {
  const rows = [];
  for (let i = 0; i < jobs.length;) {
    let end = i + 1;
    while (end < jobs.length && alike(jobs[i], jobs[end])) end += 1;
    rows.push(h("li", { "data-key": jobs[i].key }, entryOfWaiting(view, jobs[i])));
    const rest = jobs.slice(i + 1, end);
    const inside = rest.map((job) => h("li", { "data-key": job.key }, entryOfWaiting(view, job)));
    if (rest.length + 1 < FOLDED) rows.push(...inside);
    else
      rows.push(
        h(
          "li",
          { "data-key": `alike-${jobs[i].key}` },
          h(
            "details",
            { "data-key": `alike-${jobs[i].key}` },
            h("summary", { class: "soft" }, `${count(rest.length)} more that wait for the same reason`),
            h("ul", { class: "jobs" }, inside),
          ),
        ),
      );
    i = end;
  }
  return rows;
}

const alike = (one, other) =>
  one.verdict === other.verdict &&
  one.reason === other.reason &&
  one.decisive === other.decisive &&
  !one.kept &&
  !other.kept;

function reasons(view, found) {
  const { route } = view;
  return h(
    "ul",
    { class: "facets", "aria-label": "Reasons" },
    found.map((entry) => {
      const chosen = route.reason === entry.reason && route.verdict === entry.verdict;
      const target = chosen ? { verdict: "", reason: "" } : { verdict: entry.verdict, reason: entry.reason };
      return h(
        "li",
        { "data-key": `${entry.verdict} ${entry.reason}` },
        h(
          "a",
          {
            class: `facet${chosen ? " chosen" : ""}`,
            "aria-current": chosen ? "true" : null,
            href: link({ ...route, ...target }),
          },
          verdict(entry.verdict),
          ` ${words(entry.reason)} `,
          h("b", { class: "num" }, count(entry.jobs)),
          chosen ? " ✕" : "",
        ),
      );
    }),
  );
}

function entryOfWaiting(view, job) {
  const { resource, at } = view;
  const waits = job.created > 0 ? age(view.now - job.created) : "";
  const since = waits ? `for ${waits}` : "";
  const number = job.waiting + job.kept;
  const asks = job.asks[at] ? `, ${short(resource, job.asks[at])} ${unit(resource)}` : "";
  const part = job.pods ? ` of ${job.pods + number}` : "";
  const kept = job.kept ? h("span", { class: "chip good" }, `${count(job.kept)} ${view.words.kept}`) : null;
  const where = `in ${place(view, job)}`;
  return entry(
    view,
    job,
    [h("b", {}, name(job.name)), kept, job.waiting ? verdict(job.verdict) : null],
    [`${count(number)}${part} ${number === 1 && !part ? "pod" : "pods"}${asks}${since ? ` · ${since}` : ""}`],
    [
      job.waiting && !job.decisive ? null : h("p", {}, job.waiting ? job.decisive : `${view.words.keeps} ${where}`),
      expected(view, job),
    ],
  );
}

/** When it is expected to start: worked out for this page, else what the scheduler wrote last. */
function expected(view, job) {
  const told = view.etas?.jobs?.find((eta) => eta.podGroup === job.key);
  const text = told
    ? `${told.position} of ${told.of}, expected start: ${told.text}`
    : job.expected
      ? `expected start: ${job.expected}`
      : "";
  const lines = view.lists.waiting.list.length ? view.lists.waiting.list : [job];
  return text
    ? h("p", { class: "soft" }, text, told ? ganttRow(told, job.created, axisOf(view.etas, lines)) : null)
    : null;
}

export function drawRunning(view) {
  const { running } = view.lists;
  return [
    listHead(view, "Running", running, view.board.jobs.running, "order", SORTS),
    running.count
      ? null
      : h("p", { class: "soft" }, view.board.jobs.running ? "No job that runs matches." : "No job runs."),
    h(
      "ul",
      { class: "jobs" },
      running.list.map((job) => h("li", { "data-key": job.key }, entryOfRunning(view, job))),
    ),
    more(view, "running", running),
  ];
}

function entryOfRunning(view, job) {
  const { resource, at } = view;
  const chips = [
    [job.new, view.words.fresh, "good"],
    [job.leaving, "leaving", "bad"],
    [job.kept, view.words.kept, "warn"],
  ];
  const lives = job.created > 0 ? age(view.now - job.created) : "";
  const since = lives ? ` · ${lives} old` : "";
  return entry(
    view,
    job,
    [
      h("b", {}, name(job.name)),
      chips.map(([number, text, kind]) =>
        number ? h("span", { class: `chip ${kind}` }, `${count(number)} ${text}`) : null,
      ),
    ],
    [`${many(job.pods, "pod")}, ${short(resource, job.used[at])} ${unit(resource)}`],
    h("p", {}, "in ", name(place(view, job)), " · queue ", name(job.queue || "none"), since),
  );
}

/** The innermost domain of the fabric shown that holds a job. */
function place({ fabric, tree }, job) {
  const home = job.hyperNodes[tree] ?? 0;
  return home > 0 ? `${fabric.name(home)}, ${fabric.tier(home)}` : "the whole cluster";
}

function entry(view, job, title, beside, below) {
  const chosen = job.key === view.jobKey;
  return h(
    "a",
    {
      class: `entry${chosen ? " chosen" : ""}`,
      href: toJob(view.route, job.path),
      "aria-current": chosen ? "true" : null,
    },
    h("span", {}, title),
    h("span", { class: "num soft" }, beside),
    below,
  );
}

function listHead(view, title, list, all, field, sorts) {
  const { route } = view;
  const pick = h(
    "select",
    {
      "aria-label": `Order of ${title.toLowerCase()} jobs`,
      on: {
        change: (event) => {
          location.hash = link({ ...route, [field]: event.target.value });
        },
      },
    },
    sorts.map(([value, text]) =>
      h("option", { value, selected: route[field] === value }, field === "order" && !value ? "largest" : text),
    ),
  );
  const chips = [
    ["filter", route.filter && `“${route.filter}”`],
    ["queue", route.queue && `queue ${route.queue}`],
  ]
    .filter(([, text]) => text)
    .map(([name, text]) =>
      h(
        "a",
        { class: "facet chosen", href: link({ ...route, [name]: "" }), title: "Take this filter away" },
        text,
        " ✕",
      ),
    );
  return head(
    title,
    h("span", { class: "soft" }, list.count === all ? many(all, "job") : `${count(list.count)} of ${many(all, "job")}`),
    chips,
    pick,
  );
}

function more(view, name, list) {
  const left = list.count - list.list.length;
  return left > 0
    ? h(
        "button",
        { class: "more", "data-key": `more-${name}`, on: { click: () => view.showMore(name) } },
        `Show ${count(Math.min(left, 200))} more of ${count(left)}`,
      )
    : null;
}
