// A job as a row of a Gantt chart: how long it has waited, and when it is expected to start, with its ranges as bars.

import { h } from "./dom.js";
import { age } from "./format.js";

const seconds = (text) => Date.parse(text) / 1000;

/** The time that rows have in common: from the oldest wait to the last expected start. */
export function axisOf(etas, lines) {
  const now = seconds(etas.now);
  const ends = etas.jobs.flatMap((job) => [job.start, ...(job.range50 ?? []), ...(job.range90 ?? [])]);
  const to = Math.max(now + 60, ...ends.filter(Boolean).map(seconds));
  const since = lines.map((line) => line.created).filter((created) => created > 0 && created < now);
  const from = Math.min(now, ...since.map((created) => Math.max(created, now - 2 * (to - now))));
  return { from, now, to };
}

/** One job on such an axis; nothing where no start is expected. */
export function ganttRow(eta, created, { from, now, to }) {
  if (!eta.start && !eta.range90) return null;
  const at = (time) => Math.min(1, Math.max(0, (time - from) / (to - from)));
  const bar = (kind, begin, end) =>
    h("i", { class: kind, vars: { a: at(begin), w: Math.max(0, at(end) - at(begin)) } });
  const range = (kind, ends) => (ends ? bar(kind, seconds(ends[0]), ends[1] ? seconds(ends[1]) : to) : null);
  const start = eta.start ? seconds(eta.start) : null;
  const waited = created > 0 ? `waits for ${age(now - created)}` : "waits";
  const text = start === null ? waited : `${waited}, expected to start in ${age(Math.max(0, start - now))}`;
  return h(
    "span",
    { class: "gantt", role: "img", "aria-label": text, title: text },
    created > 0 ? bar("waited", Math.max(created, from), now) : null,
    range("range90", eta.range90),
    range("range50", eta.range50),
    h("u", { class: "now", vars: { a: at(now) } }),
    start === null ? null : h("u", { class: "start", vars: { a: at(start) } }),
  );
}
