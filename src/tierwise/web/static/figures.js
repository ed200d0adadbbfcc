// The figures at the top: how full, how many nodes, what runs, what waits, what was evicted.

import { gauge, h } from "./dom.js";
import { count, many, percent, short } from "./format.js";

export function drawFigures({ board, fabric, resource }) {
  const [used, total, fresh, free] = ["used", "total", "new", "free"].map((what) => fabric.sum(what, 0));
  const { jobs, cycles } = board;
  const evicted = cycles.reduce((sum, cycle) => sum + cycle.evicted, 0);
  const shut = fabric.shut(0);
  return [
    h("div", { class: "figure wide" }, h("span", { class: "soft" }, `${resource} in use`),
      h("b", {}, short(resource, used), h("small", {}, ` of ${short(resource, total)}, ${total ? percent(used / total) : "0%"}; ${short(resource, free)} free`)),
      gauge(used, total, fresh)),
    figure("Waiting", count(jobs.waiting), many(jobs.podsWaiting, "pod"), "#waiting", jobs.waiting ? "warn" : ""),
    figure("Running", count(jobs.running), many(jobs.podsRunning, "pod"), "#running"),
    figure("Evicted", count(evicted), "in the cycles below", "#cycles", evicted ? "bad" : ""),
    figure("Nodes", count(fabric.nodes(0)), shut ? `${count(shut)} take no pods` : "all take pods", "#fabric", shut ? "warn" : ""),
  ];
}

function figure(title, number, beside, target, kind = "") {
  const jump = (event) => { // these are places on the page, not routes
    event.preventDefault();
    document.querySelector(target).scrollIntoView({ behavior: "smooth" });
  };
  return h("a", { class: "figure", href: target, on: { click: jump } }, h("span", { class: "soft" }, title),
    h("b", {}, h("span", { class: kind }, number), h("small", {}, ` ${beside}`)));
}
