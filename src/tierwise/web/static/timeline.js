// Time: series over the moments that the server has kept, a scrubber that shows any of them on the same map, and what
// became of jobs since then.

import { h, head, svg } from "./dom.js";
import { age, clock, count, many, percent, short } from "./format.js";
import { link, toJob } from "./route.js";

const WIDTH = 600, HEIGHT = 34;
const SPEEDS = [1, 4, 16]; // moments a second

export function drawTimeline(view) {
  const { moments, bytes, mostBytes } = view.history;
  const last = moments.length - 1;
  const chosen = Math.max(0, view.route.at ? moments.findIndex((moment) => String(moment.id) === view.route.at) : last);
  const moment = moments[chosen];
  const go = (number) => { location.hash = link({ ...view.route, at: number >= last ? "" : String(moments[number].id) }); };
  return [
    head("Time", h("span", { class: "soft" }, `${many(moments.length, "moment")} in ${(bytes / 1048576).toFixed(1)} of ${Math.round(mostBytes / 1048576)} MiB`),
      h("span", { class: view.route.at ? "warn" : "good" }, view.route.at ? `as it was ${age(Math.max(0, view.now - moment.now)) || "0 s"} ago, ${clock(moment.now)}` : "now")),
    h("div", { class: "scrub" },
      h("button", { "data-key": "play", on: { click: view.play }, "aria-pressed": String(Boolean(view.playing)) }, view.playing ? "pause" : "play"),
      h("select", { "data-key": "speed", "aria-label": "Moments a second", on: { change: (event) => view.setSpeed(Number(event.target.value)) } },
        SPEEDS.map((speed) => h("option", { value: String(speed), selected: speed === view.speed }, `${speed}×`))),
      h("input", { "data-key": "scrub", type: "range", min: "0", max: String(last), step: "1", value: String(chosen), "aria-label": "Moment shown", "aria-valuetext": clock(moment.now),
        on: { input: (event) => go(Number(event.target.value)) } }),
      h("button", { "data-key": "now", disabled: !view.route.at, on: { click: () => go(last) } }, "now")),
    h("div", { class: "series" },
      series("in use", moments, chosen, (m) => (m.total ? m.used / m.total : 0), (m) => `${percent(m.total ? m.used / m.total : 0)} of ${short(m.resource, m.total)}`, 1),
      series("fragmented", moments, chosen, (m) => (m.total ? m.fragmented / m.total : 0), (m) => percent(m.total ? m.fragmented / m.total : 0), 1),
      series("jobs waiting", moments, chosen, (m) => m.waiting, (m) => count(m.waiting)),
      series("pods evicted", moments, chosen, (m) => m.evicted, (m) => count(m.evicted))),
    view.route.at && view.changes ? changes(view) : null,
  ];
}

/** A line over all moments, with a mark at the chosen one; its figure stands beside it. */
function series(title, moments, chosen, value, text, most = 0) {
  const values = moments.map(value);
  const top = most || Math.max(1, ...values);
  const x = (i) => (moments.length > 1 ? (i / (moments.length - 1)) * WIDTH : WIDTH);
  const y = (v) => HEIGHT - 1 - Math.min(1, v / top) * (HEIGHT - 3);
  const line = values.map((v, i) => `${i ? "L" : "M"}${x(i).toFixed(1)} ${y(v).toFixed(1)}`).join("");
  const label = `${title}: ${text(moments[chosen])} at the moment shown, from ${text(moments[0])} to ${text(moments.at(-1))}`;
  return h("figure", {}, h("figcaption", {}, h("span", { class: "soft" }, title), " ", h("b", { class: "num" }, text(moments[chosen]))),
    svg("svg", { viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", role: "img", "aria-label": label },
      svg("path", { d: `${line}L${WIDTH} ${HEIGHT}L0 ${HEIGHT}Z`, class: "under" }), svg("path", { d: line, class: "line", "vector-effect": "non-scaling-stroke" }),
      svg("path", { d: `M${x(chosen).toFixed(1)} 0V${HEIGHT}`, class: "here", "vector-effect": "non-scaling-stroke" })));
}

const WORDS = { started: "started or grew", shrunk: "with fewer pods", waiting: "began to wait", gone: "ended or left" };

function changes(view) {
  const told = Object.entries(WORDS).filter(([kind]) => view.changes[kind].count);
  return h("details", { "data-key": "changes", open: true }, h("summary", {}, told.length ? "What has changed since" : "No job has changed since"),
    h("ul", {}, told.map(([kind, words]) => h("li", {}, h("b", {}, `${many(view.changes[kind].count, "job")} `), `${words}: `,
      view.changes[kind].jobs.slice(0, 8).map((job, i) => [i ? ", " : "", h("a", { href: toJob({ ...view.route, at: "" }, job.path) }, job.name)]),
      view.changes[kind].count > 8 ? ` and ${count(view.changes[kind].count - 8)} more` : ""))));
}
