// The lists of jobs: those that wait, by queue and age, each with the sentence why; and those that stand somewhere.

import { h, head, verdict } from "./dom.js";
import { age, count, many, short, unit } from "./format.js";
import { link } from "./route.js";

const FIRST = 60;

export function drawWaiting(view) {
  const entries = view.jobs.filter((job) => job.waiting || job.kept);
  const queues = new Map();
  for (const job of cut(view, "waiting", entries)) {
    if (!queues.has(job.queue)) queues.set(job.queue, []);
    queues.get(job.queue).push(job);
  }
  const all = view.board.jobs.waiting;
  return [head("Waiting", h("span", { class: "soft" }, entries.length === all ? many(all, "job") : `${count(entries.length)} of ${many(all, "job")}`)),
    entries.length ? null : h("p", { class: "soft" }, all ? "None that matches." : "Nothing waits."),
    [...queues].map(([queue, jobs]) => [
      h("h3", {}, `queue ${queue || "none"}`),
      h("ul", { class: "jobs" }, jobs.map((job) => h("li", {}, waiting(view, job))))]),
    more(view, "waiting", entries)];
}

function waiting(view, job) {
  const { resource, at } = view;
  const since = job.created > 0 ? age(view.now - job.created) : "";
  const number = job.waiting + job.kept;
  const asks = job.asks[at] ? `, ${short(resource, job.asks[at])} ${unit(resource)}` : "";
  const part = job.pods ? ` of ${job.pods + number}` : "";
  const kept = job.kept ? h("span", { class: "chip good" }, `${count(job.kept)} ${view.words.kept}`) : null;
  const where = job.domain > 0 ? `in ${view.fabric.name(job.domain)}, ${view.fabric.tier(job.domain)}` : "in the whole cluster";
  return entry(view, job, [h("b", {}, job.name), kept, job.waiting ? verdict(job.verdict) : null, job.waiting ? h("span", { class: "chip warn" }, job.reason) : null],
    [`${count(number)}${part} ${number === 1 && !part ? "pod" : "pods"}${asks}${since ? ` · ${since}` : ""}`],
    h("p", { class: "clamp" }, job.waiting ? job.message : `${view.words.keeps} ${where}`));
}

export function drawRunning(view) {
  const entries = view.jobs.filter((job) => job.pods);
  const all = view.board.jobs.running;
  return [head("Running", h("span", { class: "soft" }, entries.length === all ? many(all, "job") : `${count(entries.length)} of ${many(all, "job")}`)),
    entries.length ? null : h("p", { class: "soft" }, all ? "None that matches." : "Nothing runs."),
    h("ul", { class: "jobs" }, cut(view, "running", entries).map((job) => h("li", {}, running(view, job)))),
    more(view, "running", entries)];
}

function running(view, job) {
  const { fabric, resource, at } = view;
  const where = job.domain > 0 ? `${fabric.name(job.domain)}, ${fabric.tier(job.domain)}` : "the whole cluster";
  const chips = [[job.new, view.words.fresh, "good"], [job.leaving, "leaving", "bad"], [job.kept, view.words.kept, "warn"]];
  return entry(view, job,
    [h("b", {}, job.name), chips.map(([number, text, kind]) => number ? h("span", { class: `chip ${kind}` }, `${count(number)} ${text}`) : null)],
    [`${many(job.pods, "pod")}, ${short(resource, job.used[at])} ${unit(resource)}`],
    h("p", {}, `in ${where} · queue ${job.queue || "none"}`));
}

function entry(view, job, title, beside, below) {
  const chosen = job.key === view.jobKey;
  return h("a", { class: `entry${chosen ? " chosen" : ""}`, href: link({ ...view.route, job: job.path }), "aria-current": chosen ? "true" : null },
    h("span", {}, title), h("span", { class: "num soft" }, beside), below);
}

function cut(view, list, entries) {
  return view.more.has(list) ? entries : entries.slice(0, FIRST);
}

function more(view, list, entries) {
  const left = entries.length - cut(view, list, entries).length;
  return left ? h("button", { class: "more", "data-key": `more-${list}`, on: { click: () => view.show(list) } }, `Show ${count(left)} more`) : null;
}
