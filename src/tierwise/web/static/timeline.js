// Time: series over the moments that are kept or recorded, a scrubber that shows any of them on the same map, play and
// step, and what happened at the moment shown and since.

import { h, head, svg } from "./dom.js";
import { age, clock, count, many, percent, short } from "./format.js";
import { link, toJob, toNode } from "./route.js";

const WIDTH = 600,
  HEIGHT = 34;
const SPEEDS = [1, 4, 16]; // moments a second

/** The number of the moment that an address asks for; the last one where it asks for none. */
export function shownMoment({ moments }, route) {
  const found = route.at ? moments.findIndex((moment) => String(moment.id) === route.at) : -1;
  return found < 0 ? moments.length - 1 : found;
}

const TIME = /^(?:(\d{4}-\d\d-\d\d)[ T])?(\d{1,2}):(\d\d)(?::(\d\d))?(?: ?Z| ?UTC)?$/i;

/** Whether a text is a time of day, with or without a date. */
export const isTime = (text) => TIME.test(text.trim());

/** The last moment up to a time, as people write it: "14:20" is the minute of the last day that has it. */
export function momentAt(history, text) {
  const { moments, elapsed } = history;
  const [, day, hours, minutes, seconds] = TIME.exec(text.trim()) ?? [];
  if (hours === undefined || !moments.length) return null;
  const end = Number(hours) * 3600 + Number(minutes) * 60 + (seconds === undefined ? 59.999 : Number(seconds) + 0.999);
  const midnight = elapsed
    ? 0
    : day
      ? Date.parse(`${day}T00:00:00Z`) / 1000
      : Math.floor(moments.at(-1).now / 86400) * 86400;
  const back = !day && !elapsed && midnight + end - 60 > moments.at(-1).now ? 86400 : 0; // that of yesterday
  return moments.findLast((moment) => moment.now <= midnight + end - back) ?? moments[0];
}

export function drawTimeline(view) {
  const { moments, runs, recorded } = view.history;
  const last = moments.length - 1;
  const chosen = shownMoment(view.history, view.route);
  const moment = moments[chosen];
  const go = (number) => view.jump(number >= last ? "" : String(moments[Math.max(0, number)].id)); // the last one needs no name
  const to = (event) => {
    event.preventDefault();
    const field = event.currentTarget.elements.time;
    const found = momentAt(view.history, field.value);
    field.setCustomValidity(found ? "" : "a time such as 14:20 or 2026-11-16 14:20:05 (UTC)");
    if (found) view.jump(String(found.id));
    else field.reportValidity();
  };
  return [
    head(
      "Time",
      told(view, chosen),
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
          placeholder: "go to 14:20",
          "aria-label": "Go to a time (UTC)",
        }),
      ),
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
        min: "0",
        max: String(last),
        step: "1",
        value: String(chosen),
        "aria-label": "Moment shown",
        "aria-valuetext": `${clock(moment.now)}, ${count(chosen + 1)} of ${count(last + 1)}`,
        on: { input: (event) => go(Number(event.target.value)) },
      }),
      h(
        "button",
        { "data-key": "now", disabled: !view.route.at, on: { click: () => view.jump("") } },
        recorded ? "end" : "now",
      ),
    ),
    h("div", { class: "ends soft num" }, h("span", {}, clock(moments[0].now)), h("span", {}, clock(moments[last].now))),
    h(
      "div",
      { class: "series" },
      SERIES.filter(([, value]) => moments.some((m) => value(m) !== null)).map((one) =>
        series(one, moments, chosen, go),
      ),
    ),
    view.happened || view.changes
      ? h("div", { class: "changes" }, view.happened ? happened(view, chosen) : null, view.changes ? since(view) : null)
      : null,
  ];
}

/** Which moment is shown, in words that cannot be taken for now. */
function told(view, chosen) {
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
    `${many(moments.length, "moment")} in ${(bytes / 1048576).toFixed(1)} of ${Math.round(mostBytes / 1048576)} MiB`,
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

/** Series: [title, value, text, the highest value where it is known, whether it counts what happens]. */
/** @type {Any[]} */
const SERIES = [
  [
    "in use",
    (m) => share(m.used, m),
    (m) => `${percent(share(m.used, m))} of ${short(m.resource, m.total)} ${m.resource}`,
    1,
  ],
  [
    "fragmented",
    (m) => (m.fragmented === null ? null : share(m.fragmented, m)),
    (m) => percent(share(m.fragmented, m)),
    1,
  ],
  ["jobs waiting", (m) => m.waiting, (m) => count(m.waiting)],
  ["pods placed", (m) => m.placed, (m) => count(m.placed), 0, true],
  ["pods evicted", (m) => m.evicted, (m) => count(m.evicted), 0, true],
];

/** A line over all moments, or a bar where something happened, with a mark at the chosen one; a click goes there. */
function series([title, value, text, most, events], moments, chosen, go) {
  const values = moments.map(value);
  const top = most || Math.max(1, ...values);
  const x = (i) => (moments.length > 1 ? (i / (moments.length - 1)) * WIDTH : WIDTH);
  const y = (v) => HEIGHT - 1 - Math.min(1, v / top) * (HEIGHT - 3);
  const line = events
    ? values.map((v, i) => (v ? `M${x(i).toFixed(1)} ${HEIGHT}V${y(v).toFixed(1)}` : "")).join("")
    : values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  const label = `${title}: ${text(moments[chosen])} at the moment shown, from ${text(moments[0])} to ${text(moments.at(-1))}`;
  const click = (event) => {
    const box = event.currentTarget.getBoundingClientRect();
    go(Math.round(((event.clientX - box.left) / box.width) * (moments.length - 1)));
  };
  return h(
    "figure",
    { "data-key": title },
    h("figcaption", {}, h("span", { class: "soft" }, title), " ", h("b", { class: "num" }, text(moments[chosen]))),
    h(
      "div",
      { class: "plot", on: { click } },
      svg(
        "svg",
        { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
        events ? null : svg("path", { d: `${line}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`, class: "under" }),
        svg("path", {
          d: line,
          class: events ? `line events ${title.endsWith("evicted") ? "lost" : ""}` : "line",
          "vector-effect": "non-scaling-stroke",
        }),
        svg("path", {
          d: `M${x(chosen).toFixed(1)} 0V${HEIGHT}`,
          class: "here",
          "vector-effect": "non-scaling-stroke",
        }),
      ),
    ),
  );
}

const WORDS = {
  started: "started or grew",
  shrunk: "with fewer pods",
  waiting: "began to wait",
  gone: "ended or left",
};

/** What happened between the moment before and the one shown: evictions with their reasons first. */
function happened(view, chosen) {
  const { moments, recorded } = view.history;
  const before = moments[chosen - 1];
  const news = view.board.cycles.filter((cycle) => recorded || cycle.now > before.now);
  const name = (key) =>
    view.board.names[key]
      ? h("a", { href: toJob(view.route, view.board.names[key][1]) }, view.board.names[key][0])
      : key;
  const lost = news.flatMap((cycle) => cycle.evictions);
  const nodes = nodeChanges(view, before, moments[chosen]);
  return h(
    "div",
    { "data-key": "happened" },
    h("h3", {}, `What happened here, since ${clock(before.now)}`),
    h(
      "ul",
      {},
      lost
        .slice(0, 8)
        .map((e) =>
          h(
            "li",
            {},
            h("b", { class: "bad" }, `${many(e.pods.length, "pod")} evicted`),
            " of ",
            name(e.job),
            e.by ? [" for ", name(e.by)] : "",
            `: ${e.reason}`,
          ),
        ),
      nodes.map((told) => h("li", {}, told)),
      lines(view, view.happened),
      lost.length || nodes.length || any(view.happened)
        ? null
        : h("li", { class: "soft" }, "No job started, ended or began to wait."),
    ),
  );
}

/** Nodes that came, went, or stopped taking pods; by name where all that take none are new, and few. */
function nodeChanges(view, before, now) {
  const told = (by, more, less) =>
    by > 0 ? [`${many(by, "node")} ${more}`] : by < 0 ? [`${many(-by, "node")} ${less}`] : [];
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
    ...told(now.shut - before.shut, "stopped taking pods", "took pods again or left").map((text) => [text, names]),
    ...told(now.nodes - before.nodes, "came", "left"),
  ];
}

function since(view) {
  return h(
    "div",
    { "data-key": "since" },
    h("h3", {}, view.history.recorded ? "From here to the end" : "What has changed since"),
    h("ul", {}, any(view.changes) ? lines(view, view.changes) : h("li", { class: "soft" }, "No job has changed.")),
  );
}

const any = (found) => Object.values(found).some((kind) => kind.count);

function lines(view, found) {
  const there = view.history.whole ? view.route : { ...view.route, at: "" };
  return Object.entries(WORDS)
    .filter(([kind]) => found[kind].count)
    .map(([kind, words]) =>
      h(
        "li",
        { "data-key": kind },
        h("b", {}, `${many(found[kind].count, "job")} `),
        `${words}: `,
        found[kind].jobs
          .slice(0, 8)
          .map((job, i) => [i ? ", " : "", h("a", { href: toJob(there, job.path) }, job.name)]),
        found[kind].count > 8 ? ` and ${count(found[kind].count - 8)} more` : "",
      ),
    );
}

/** The line of the search that leads to a time. */
export function timeHit(route, text) {
  return isTime(text)
    ? [link({ ...route, at: `@${text.trim()}` }), h("b", {}, `What happened at ${text.trim()}`)]
    : null;
}
