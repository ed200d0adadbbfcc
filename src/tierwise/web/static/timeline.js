// Time: series over the moments that are kept or recorded, a scrubber that shows any of them on the same map, play and
// step, and what happened at the moment shown, in the while that was chosen, and since.

import { fill, h, head } from "./dom.js";
import { age, clock, count, many, percent, short, tick } from "./format.js";
import { lost } from "./life.js";
import { EXAMPLE, during, endOf, isTime, momentAt, shownMoment, spanOf } from "./past.js";
import { Plots, lasting } from "./plots.js";
import { link, toJob, toNode } from "./route.js";

const SPEEDS = [1, 4, 16]; // moments a second
/** @type {[string, number][]} */
const WHILES = [
  ["10 min", 600],
  ["1 h", 3600],
  ["6 h", 21600],
]; // up to the newest moment

/** @type {Plots | null} */
let plots = null;

/** Draw the section; the charts are no children that a redraw may change. */
export function drawTimeline(section, view) {
  if (!plots) {
    section.append(h("div", {}), h("div", { class: "series" }), h("div", {}));
    plots = new Plots(section.children[1]);
  }
  const charts = plots;
  const { moments } = view.history;
  const chosen = shownMoment(view.history, view.route),
    last = moments.length - 1;
  const span = during(view.route);
  const end = view.route.at ? moments[last].now : endOf(view.history);
  const go = (number) => view.jump(number >= last ? "" : String(moments[Math.max(0, number)].id)); // the last one needs no name
  fill(section.children[0], controls(view, { chosen, last, go, end }));
  fill(section.children[2], told(view, chosen, span));
  charts.show({
    series: SERIES.filter((one) => moments.some((m) => one.value(m) !== null)),
    moments,
    chosen,
    end,
    during: span,
    range: span ? around(span) : [moments[0].now, Math.max(end, moments[0].now + 1)],
    go: (number) => go(Math.min(number, last)),
    choose: (from, to) => view.during(to > from ? { from, to } : null),
  });
}

/** A while with a little of what is beside it. */
function around({ from, to }) {
  const beside = (to - from + 1) / 4;
  return [from - beside, to + 1 + beside];
}

function controls(view, { chosen, last, go, end }) {
  const { moments, runs, recorded } = view.history;
  const moment = moments[chosen];
  const to = (event) => {
    event.preventDefault();
    const field = event.currentTarget.elements.time;
    const found = spanOf(view.history, field.value);
    field.setCustomValidity(found ? "" : EXAMPLE);
    if (found) view.during(found);
    else field.reportValidity();
  };
  const keys = (event) => {
    const by = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1 }[event.key];
    if (!by) return;
    event.preventDefault();
    if (moments[chosen + by]) go(chosen + by);
  };
  return [
    head(
      "Time",
      which(view, chosen),
      runs.length > 1
        ? h(
            "label",
            { class: "pick" },
            "Run ",
            h(
              "select",
              {
                "data-key": "run",
                "aria-label": "Run shown",
                on: { change: (event) => view.jump(`@${moment.now}`, event.target.value) },
              },
              runs.map((run) => h("option", { value: run, selected: run === (view.route.run || runs[0]) }, run)),
            ),
          )
        : null,
      h(
        "form",
        { class: "goto", on: { submit: to } },
        h("input", {
          name: "time",
          type: "text",
          size: "9",
          autocomplete: "off",
          placeholder: "14:20 or last 1 h",
          "aria-label": "Go to a time (UTC)",
          on: { input: (event) => event.target.setCustomValidity("") }, // else the form is not sent again
        }),
      ),
      whiles(view, end),
    ),
    h(
      "div",
      { class: "scrub" },
      h(
        "button",
        {
          "data-key": "back",
          disabled: chosen === 0,
          "aria-label": "One moment back ( , )",
          on: { click: () => go(chosen - 1) },
        },
        "‹",
      ),
      h(
        "button",
        { "data-key": "play", on: { click: view.play }, "aria-pressed": String(view.playing) },
        view.playing ? "pause" : "play",
      ),
      h(
        "button",
        {
          "data-key": "on",
          disabled: chosen === last,
          "aria-label": "One moment on ( . )",
          on: { click: () => go(chosen + 1) },
        },
        "›",
      ),
      h(
        "select",
        {
          "data-key": "speed",
          "aria-label": "Moments a second",
          on: { change: (event) => view.setSpeed(Number(event.target.value)) },
        },
        SPEEDS.map((speed) => h("option", { value: String(speed), selected: speed === view.speed }, `${speed}/s`)),
      ),
      h("input", {
        "data-key": "scrub",
        type: "range",
        min: String(moments[0].now),
        max: String(moments[last].now),
        step: "any",
        value: String(moment.now),
        "aria-label": "Moment shown",
        "aria-valuetext": `${clock(moment.now)}, ${count(chosen + 1)} of ${count(last + 1)}`,
        on: {
          input: (event) => {
            const time = Number(event.target.value);
            go(moments.findLastIndex((other) => other.now <= time));
          },
          keydown: keys,
        },
      }),
      h(
        "button",
        {
          "data-key": "now",
          disabled: !view.route.at && !view.route.during,
          on: { click: () => view.during(null, "") },
        },
        recorded ? "end" : "now",
      ),
    ),
  ];
}

/** The last minutes or hours by a click, and all that there is. */
function whiles(view, end) {
  const { moments } = view.history;
  const span = during(view.route);
  const known = WHILES.filter(([, seconds]) => end - moments[0].now > seconds);
  if (!known.length && !span) return null;
  return h(
    "span",
    { class: "whiles", role: "group", "aria-label": "How much of it" },
    known.map(([title, seconds]) =>
      h(
        "a",
        {
          class: "facet plain",
          href: link({ ...view.route, at: "", during: `${Math.floor(end - seconds)}-${Math.ceil(end)}` }),
        },
        title,
      ),
    ),
    h("a", { class: `facet plain${span ? "" : " chosen"}`, href: link({ ...view.route, during: "" }) }, "all"),
  );
}

/** Which moment is shown, in words that cannot be taken for now. */
function which(view, chosen) {
  const { moments, recorded, count: every, bytes, mostBytes } = view.history;
  const number = `moment ${count(chosen + 1)} of ${count(moments.length)}`;
  if (recorded)
    return h(
      "span",
      { class: "warn" },
      `recorded ${clock(moments[chosen].now)}, ${number}${every > moments.length ? ` (${count(every)} recorded)` : ""}`,
    );
  const kept = h(
    "span",
    { class: "soft" },
    `${many(moments.length, "moment")} of ${age(moments.at(-1).now - moments[0].now) || "0 s"}, ${(bytes / 1048576).toFixed(1)} of ${Math.round(mostBytes / 1048576)} MiB`,
  );
  if (!view.route.at) return [h("span", { class: "good" }, "now"), kept];
  return [
    h(
      "span",
      { class: "warn" },
      `as it was ${age(Math.max(0, Date.now() / 1000 - moments[chosen].now)) || "0 s"} ago, ${clock(moments[chosen].now)}, ${number}`,
    ),
    kept,
  ];
}

const share = (part, m) => (m.total ? part / m.total : 0);

/** Series: what each shows of a moment, the highest value where it is known, and whether it counts what happens. */
const SERIES = [
  {
    title: "in use",
    kind: "line",
    value: (m) => share(m.used, m),
    text: (m) => `${percent(share(m.used, m))} of ${short(m.resource, m.total)} ${m.resource}`,
    most: 1,
  },
  {
    title: "fragmented",
    kind: "line",
    value: (m) => (m.fragmented === null ? null : share(m.fragmented, m)),
    text: (m) => percent(share(m.fragmented, m)),
    most: 1,
  },
  { title: "jobs waiting", kind: "line waits", value: (m) => m.waiting, text: (m) => count(m.waiting) },
  { title: "pods placed", kind: "bars", value: (m) => m.placed || null, text: (m) => count(m.placed), events: true },
  {
    title: "pods evicted",
    kind: "bars lost",
    value: (m) => m.evicted || null,
    text: (m) => count(m.evicted),
    events: true,
  },
];

const KINDS = { started: "started or grew", shrunk: "with fewer pods", waits: "began to wait", ended: "ended or left" };
const SINCE = { evicted: "with evicted pods", ...KINDS };

/** What happened in the while that was chosen, or at the moment shown, and what has changed since. */
function told(view, chosen, span) {
  if (!view.happened && !view.changes) return null;
  return h(
    "div",
    { class: "changes" },
    view.happened ? happened(view, chosen, span) : null,
    view.changes ? since(view) : null,
  );
}

/** Everything that happened in a while, evictions with their reasons first. */
function happened(view, chosen, span) {
  const { moments } = view.history;
  const found = view.happened;
  const before = span ? (moments.findLast((m) => m.now < span.from) ?? moments[0]) : moments[chosen - 1];
  const nodes = nodeChanges(view, before, span ? momentAt(view.history, span.to) : moments[chosen]);
  const evicted = found.evicted.entries;
  const title = !span
    ? `What happened here, since ${clock(before.now)}`
    : `What happened from ${clock(span.from)} on, in ${lasting(span)}`;
  return h(
    "div",
    { "data-key": "happened" },
    h("h3", {}, title),
    h(
      "ul",
      {},
      evicted.slice(0, 20).map((entry) => h("li", {}, when(view, entry, span), lost(view.route, entry))),
      evicted.length > 20
        ? h("li", {}, `and ${many(found.evicted.pods - sum(evicted.slice(0, 20)), "pod")} more evicted`)
        : null,
      nodes.map((text) => h("li", {}, text)),
      lines(view, found, KINDS),
      any(found) || nodes.length ? null : h("li", { class: "soft" }, "No job started, ended or began to wait."),
    ),
  );
}

const sum = (entries) => entries.reduce((pods, entry) => pods + (entry.pods ?? 0), 0);

/** When in a while, with the way to that moment. */
function when(view, entry, span) {
  if (!span) return null;
  const href = link({ ...view.route, at: String(entry.moment) });
  return [h("a", { class: "num", href, title: clock(entry.now) }, tick(entry.now, 1, entry.now)), " "];
}

/** Nodes that came, went, or stopped taking pods; by name where all that take none are new, and few. */
function nodeChanges(view, before, now) {
  const by = (number, more, less) =>
    number > 0 ? [`${many(number, "node")} ${more}`] : number < 0 ? [`${many(-number, "node")} ${less}`] : [];
  const shut = before.shut ? [] : (view.nodes ?? []).filter((node) => node.state);
  const names =
    shut.length <= 3 && shut.length === now.shut
      ? shut.map((node, i) => [
          i ? ", " : ": ",
          h("a", { href: toNode(view.route, node.name) }, node.name),
          ` (${node.state})`,
        ])
      : [];
  return [
    ...by(now.shut - before.shut, "stopped taking pods", "took pods again or left").map((text) => [text, names]),
    ...by(now.nodes - before.nodes, "came", "left"),
  ];
}

function since(view) {
  return h(
    "div",
    { "data-key": "since" },
    h("h3", {}, view.history.recorded ? "From here to the end" : "What has changed since"),
    h(
      "ul",
      {},
      any(view.changes) ? lines(view, view.changes, SINCE) : h("li", { class: "soft" }, "No job has changed."),
    ),
  );
}

const any = (found) => Object.values(found).some((kind) => kind.count);

function lines(view, found, words) {
  const there = view.history.whole ? view.route : { ...view.route, at: "" };
  return Object.entries(words)
    .filter(([kind]) => found[kind].count)
    .map(([kind, text]) => {
      const jobs = [...new Map(found[kind].entries.map((job) => [job.path, job])).values()];
      return h(
        "li",
        { "data-key": kind },
        h("b", {}, `${many(found[kind].count, "job")} `),
        `${text}: `,
        jobs.slice(0, 8).map((job, i) => [i ? ", " : "", h("a", { href: toJob(there, job.path) }, job.name)]),
        found[kind].count > 8 ? ` and ${count(found[kind].count - 8)} more` : "",
      );
    });
}

/** The line of the search that leads to a time. */
export function timeHit(route, text) {
  return isTime(text)
    ? [
        link({ ...route, at: `@${text.trim()}` }),
        h("b", {}, `What happened ${/last/i.test(text) ? "in the" : "at"} ${text.trim().replace(/^the /i, "")}`),
      ]
    : null;
}
