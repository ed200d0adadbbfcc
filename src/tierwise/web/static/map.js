// The map of the fabric: nested blocks for domains, a tile for each innermost one, a cell for each node where there
// are few enough. A domain is a link that opens it; the pods of the chosen job light up.

import { gauge, h, head } from "./dom.js";
import { many, short, tail, unit } from "./format.js";
import { link } from "./route.js";

export const MOST_CELLS = 1500; // a view never draws more tiles, or more nodes
const DENSE = 250; // more tiles than this are drawn as cells themselves

const LEGEND = [
  ["in use", { b: 1, u: 1 }, ""], ["new in this run", { b: 0, u: 1 }, "new"], ["free", {}, ""],
  ["chosen for a gang that waits", {}, "kept"], ["takes no pods", {}, "shut"],
];

export function drawMap(view) {
  const { fabric, zoom } = view;
  const open = fabric.opened(zoom, MOST_CELLS);
  const drawing = new Drawing(view, open);
  const inner = fabric.children[zoom].length
    ? [...fabric.children[zoom].map((d) => drawing.domain(d)), drawing.own(zoom)]
    : [drawing.tile(zoom, fabric.name(zoom))];
  const kind = ["map", drawing.dense ? "dense" : "", view.lights ? "lights" : ""].join(" ");
  return [
    head("Fabric", crumbs(view), h("span", { class: "soft num" }, said(view, zoom))),
    h("div", { class: kind, role: "group", "aria-label": "Map of domains; arrow keys move, Enter opens",
      vars: { size: `${drawing.size}px` } }, h("div", { class: "inside" }, inner)),
    h("ul", { class: "legend" }, LEGEND.filter((_, i) => view.shown[i]).map(([text, vars, mark]) =>
      h("li", {}, h("span", { class: `cell ${mark}`, vars }), text))),
  ];
}

function crumbs({ fabric, zoom, route }) {
  const path = fabric.path(zoom);
  return h("nav", { class: "crumbs", "aria-label": "Domains around the map" }, path.map((d, i) => (i < path.length - 1
    ? h("a", { href: link({ ...route, domain: d ? fabric.name(d) : "" }) }, fabric.name(d))
    : h("span", {}, fabric.name(d), h("span", { class: "soft" }, ` ${fabric.tier(d)}`)))));
}

/** What a domain has in words: the label of everything that is drawn of it. */
function said({ fabric, resource }, d) {
  const [used, total, free] = ["used", "total", "free"].map((what) => short(resource, fabric.sum(what, d)));
  const shut = fabric.shut(d) ? `, ${many(fabric.shut(d), "node")} shut` : "";
  return `${used} of ${total} ${unit(resource)} in use, ${free} free on ${many(fabric.nodes(d), "node")}${shut}`;
}

/** How far a cell is filled, and how far before this run. */
function filled(used, total, fresh) {
  const part = (amount) => (total > 0 ? Math.min(1, Math.max(0, amount / total)) : 0);
  return { b: part(used - fresh), u: part(used) };
}

class Drawing {
  constructor(view, open) {
    this.view = view;
    this.open = open;
    this.tiles = this.count(view.zoom);
    this.byDomain = new Map();
    for (const node of view.nodes ?? []) {
      if (!this.byDomain.has(node.domain)) this.byDomain.set(node.domain, []);
      this.byDomain.get(node.domain).push(node);
    }
    const cells = view.nodes?.length ?? 0;
    this.dense = this.tiles > DENSE && !cells;
    this.size = this.dense ? 14 : cells <= 128 ? 22 : cells <= 400 ? 16 : 12;
  }

  count(d) { // tiles below d
    return this.open.has(d) ? this.view.fabric.children[d].reduce((sum, child) => sum + this.count(child), 0) : 1;
  }

  domain(d) { // an opened domain as a block around what is in it, any other as a tile
    const { fabric, resource, route } = this.view;
    const siblings = fabric.children[fabric.columns.parent[d]].map((other) => fabric.name(other));
    const label = this.tiles > 64 ? tail(fabric.name(d), siblings) : fabric.name(d);
    if (!this.open.has(d)) return this.tile(d, label);
    const [used, total, fresh] = ["used", "total", "new"].map((what) => fabric.sum(what, d));
    return h("div", { class: `block${this.mark(d)}` },
      h("div", { class: "name" },
        h("a", { href: link({ ...route, domain: fabric.name(d) }), title: this.title(d) }, fabric.name(d)),
        this.dense && !this.view.fabric.children[d].some((child) => this.open.has(child)) ? null : gauge(used, total, fresh),
        h("span", { class: "num" }, `${short(resource, used)} / ${short(resource, total)}`),
        this.badge(d)),
      h("div", { class: "inside" }, fabric.children[d].map((child) => this.domain(child)), this.own(d)));
  }

  tile(d, label) {
    const { fabric, resource, route } = this.view;
    const [used, total, fresh] = ["used", "total", "new"].map((what) => fabric.sum(what, d));
    const props = { href: link({ ...route, domain: fabric.name(d) }), title: this.title(d), "aria-label": this.title(d), tabindex: "-1" };
    const kind = `tile${this.mark(d)}`;
    if (this.dense) return h("a", { ...props, class: `${kind} cell${fresh ? " new" : ""}`, vars: filled(used, total, fresh) });
    const cells = (this.byDomain.get(d) ?? []).map((node) => this.cell(node));
    return h("a", { ...props, class: kind },
    h("span", { class: "label" }, h("b", {}, label), h("span", {}, `${short(resource, used)}/${short(resource, total)}`)),
    cells.length ? h("span", { class: "cells" }, cells) : gauge(used, total, fresh),
    this.badge(d));
  }

  own(d) { // the nodes that hang on an opened domain itself
    const { fabric } = this.view;
    if (!fabric.own(d) || !fabric.children[d].length) return null;
    const nodes = this.byDomain.get(d) ?? [];
    const text = d ? `${many(fabric.own(d), "node")} directly in ${fabric.name(d)}` : `${many(fabric.own(d), "node")} in no domain`;
    return h("div", { class: "tile", role: "note" }, h("span", { class: "label" }, h("b", {}, text)),
      nodes.length ? h("span", { class: "cells" }, nodes.map((node) => this.cell(node))) : null);
  }

  cell(node) {
    const { at, resource, jobKey, jobNames } = this.view;
    const [used, total, fresh, kept] = ["used", "total", "new", "kept"].map((what) => node.amounts[what][at]);
    const marks = [fresh && "new", kept && "kept", node.state && "shut", jobKey && node.jobs[jobKey] && "lit"];
    const jobs = Object.entries(node.jobs).map(([key, pods]) => `${jobNames.get(key) ?? key} (${many(pods, "pod")})`);
    return h("span", { class: ["cell", ...marks.filter(Boolean)].join(" "), vars: filled(used, total, fresh),
      title: [`${node.name}: ${short(resource, used)} of ${short(resource, total)} ${unit(resource)} in use`,
        node.state, ...jobs].filter(Boolean).join("\n") });
  }

  title(d) {
    const { fabric, lights, tried } = this.view;
    const lit = lights?.has(d) ? `; ${many(lights.get(d), "pod")} of the chosen job`
      : tried.has(d) ? `; the best of its tier for the chosen job: ${tried.get(d)} pods fit` : "";
    return `${fabric.name(d)}${fabric.tier(d) ? `, ${fabric.tier(d)}` : ""}: ${said(this.view, d)}${lit}`;
  }

  mark(d) { // the chosen job stands there; or it stands nowhere, and this is the best place that was tried
    const { lights, tried } = this.view;
    return lights?.has(d) ? " lit" : tried.has(d) ? " tried" : "";
  }

  badge(d) {
    const { lights, tried } = this.view;
    if (lights?.has(d)) return h("span", { class: "badge" }, String(lights.get(d)));
    return tried.has(d) ? h("span", { class: "badge" }, tried.get(d)) : null;
  }
}
