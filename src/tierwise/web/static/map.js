// The map of the fabric: nested blocks for domains, a tile for each innermost one, a cell for each node where there
// are few enough. Everything drawn is a link; the pods of the chosen job light up. Domains of one level are equally
// large, and the whole is meant to fit one screen: cells get smaller, and outer levels take their place, as it grows.

import { command, gauge, h, head, name, unseen } from "./dom.js";
import { drawFits } from "./fits.js";
import { many, percent, prefix, short, unit } from "./format.js";
import { fitting } from "./layout.js";
import { domainLinks, link, toDomain, toNode } from "./route.js";
import { questions, withChange } from "./whatif.js";
import { listOfDomains } from "./phone.js";

export const MOST_CELLS = 1500; // a view never draws more tiles, or more nodes
const STEPS = [MOST_CELLS, 600, 250, 80, 30]; // fewer tiles, as long as they are too small
const NARROW = 700; // a screen that is touched: cells are large enough for fingers, and the page scrolls
const TILES = 80; // more innermost domains than this are drawn as cells

/** What is drawn how: in words, filled how far, marked how, and whether it is there, of a view and the marks drawn.
 *
 * @type {[string, Record<string, number>, string, (view: Any, drawn: Set<string>) => boolean][]} */
const LEGEND = [
  ["fragmented", { b: 1, u: 1 }, "fragment", ({ fabric }) => fabric.fragments],
  ["in use", { b: 1, u: 1 }, "", ({ fabric }) => !fabric.fragments],
  ["newly placed", { b: 0, u: 1 }, "new", ({ fabric }) => fabric.sum("new", 0) > 0],
  ["free", {}, "", ({ fabric }) => !fabric.fragments],
  ["kept for a gang that waits", {}, "kept", ({ fabric }) => fabric.sum("kept", 0) > 0],
  ["takes no pods", {}, "shut", (_view, drawn) => drawn.has("shut")],
  ["some of its nodes take no pods", {}, "partly", (_view, drawn) => drawn.has("partly")],
  ["holds more than it has", { b: 1, u: 1 }, "over", (_view, drawn) => drawn.has("over")],
  ["takes what was asked for", {}, "fits", ({ fitting }) => fitting?.size > 0],
  ["pods of the chosen job", {}, "lit", ({ lights }) => lights !== null],
  ["best place that was tried for it", {}, "tried", ({ tried }) => tried.size > 0],
];

export function drawMap(view) {
  const { fabric, zoom } = view;
  if (!fabric.nodes(0)) return empty(view);
  const drawn = view.phone ? listOfDomains(view) : map(view);
  return [
    head("Fabric", crumbs(view), h("span", { class: "soft" }, said(view, zoom))),
    view.board.fabrics.length > 1 ? chooser(view) : null,
    zoom
      ? questions(view, "What if", [
          ["it were drained", "drain", fabric.name(zoom)],
          ["it were cordoned", "cordon", fabric.name(zoom)],
          ["it were gone", "remove", fabric.name(zoom)],
          ...(view.tree ? [] : [["there were one more like it", "add-domains", `1=${fabric.name(zoom)}`]]),
        ])
      : null,
    notes(view),
    fabric.fragments ? fragments(view) : null,
    drawFits(view),
    drawn,
  ];
}

/** The picture itself, with its legend. */
function map(view) {
  const { fabric, zoom } = view;
  const drawing = richest(view);
  const inside = drawing.inside(zoom, 0, view.width);
  return [
    drawing.shared(zoom, view.width),
    h(
      "div",
      {
        class: `map${view.lights ? " lights" : ""}${view.fitting ? " fitting" : ""}${fabric.fragments ? " fragments" : ""}`,
        role: "group",
        "aria-label": "Map of domains; arrow keys move, Enter opens",
        vars: { size: `${drawing.layout.size}px` },
      },
      inside,
      drawing.more(zoom, `+ one more like ${fabric.name(fabric.children[zoom].at(-1) ?? 0)}`),
    ),
    h(
      "ul",
      { class: "legend" },
      LEGEND.filter((entry) => entry[3](view, drawing.marks)).map(([text, vars, mark]) =>
        h("li", {}, h("span", { class: `cell ${mark}`, vars, "aria-hidden": "true" }), text),
      ),
    ),
  ];
}

/** A cluster without nodes: what to do about it. */
function empty({ board }) {
  const apply = board.mode === "scheduler" || board.mode === "cluster";
  return [
    head("Fabric", h("span", { class: "soft" }, "no nodes yet")),
    h(
      "p",
      {},
      "There is nothing to place pods on. ",
      apply ? "Nodes, a topology and jobs to try it with:" : "Look at an example:",
    ),
    command(apply ? "kubectl apply -f examples/01-llm-training" : "tierwise serve -f examples/01-llm-training"),
    h("p", { class: "soft" }, "The page shows nodes as soon as they are there. The guide: docs/guides/first-steps.md"),
  ];
}

/** Where most is fragmented, of the domains that are drawn inside the opened one. */
function fragments(view) {
  const { fabric, zoom, route, resource } = view;
  const worst = [...fabric.children[zoom]]
    .filter((d) => fabric.sum("used", d))
    .sort((one, other) => fabric.sum("used", other) - fabric.sum("used", one))
    .slice(0, 6);
  return h(
    "p",
    { class: "note" },
    "The map shows what is fragmented: free, but too little in one place for any gang that waits. A full bar is as much as the worst domain of its tier has. ",
    worst.length
      ? [
          "Most of it is in ",
          worst.map((d, i) => [
            i ? ", " : "",
            h("a", { href: toDomain(route, fabric.name(d)) }, fabric.name(d)),
            ` (${short(resource, fabric.sum("used", d))})`,
          ]),
          ". ",
        ]
      : null,
    h("a", { href: link({ ...route, show: "" }) }, "Show what is in use"),
  );
}

/** The trees over the same nodes, of which one is drawn. */
function chooser({ board, route, tree }) {
  return h(
    "nav",
    { "aria-label": "Fabrics" },
    h(
      "ul",
      { class: "facets" },
      board.fabrics.map(({ title, name, setAside }, i) =>
        h(
          "li",
          { "data-key": title },
          h(
            "a",
            {
              class: `facet plain${i === tree ? " chosen" : ""}`,
              "aria-current": i === tree ? "true" : null,
              href: link({ ...route, fabric: i ? title : "", domain: "" }),
            },
            h("b", {}, title),
            h("span", { class: "soft" }, ` ${many(name.length - 1, "domain")}`),
            setAside.length ? h("span", { class: "bad" }, ` ${setAside.length} set aside`) : null,
          ),
        ),
      ),
    ),
  );
}

/** The drawing with the most levels whose cells are still large enough to be seen and to be hit: nodes, then domains. */
function richest(view) {
  /** @type {Any} */
  let drawing = null;
  let levels = -1;
  for (const most of STEPS) {
    const open = view.fabric.opened(view.zoom, most);
    if (open.size === levels) continue; // the same levels as before
    levels = open.size;
    for (const nodes of view.nodes?.length && view.fabric.whole(view.zoom, open) ? [view.nodes, []] : [[]]) {
      drawing = new Drawing(view, open, nodes);
      if (drawing.layout.legible) return drawing;
    }
  }
  return drawing;
}

/** What the map does not show by itself: domains that errors took out, and a chosen job that stands elsewhere. */
function notes({ board, fabric, zoom, route, story, lights, tried }) {
  const { setAside } = fabric.columns;
  const aside = setAside.length
    ? h(
        "p",
        { class: "note bad" },
        `${many(setAside.length, "domain")} set aside for errors and not drawn: ${setAside.slice(0, 6).join(", ")}${setAside.length > 6 ? " …" : ""}. `,
        h("a", { href: "#problems", on: { click: toProblems } }, "See the problems"),
      )
    : null;
  if (!lights && !tried.size && story?.why?.tried.some((t) => t.bestIndex > 0)) {
    const best = story.why.tried.findLast((t) => t.bestIndex > 0),
      { title } = board.fabrics[best.fabric];
    return [
      aside,
      h(
        "p",
        { class: "note" },
        `The best place for ${story.name} that was tried is ${best.best}, on ${title}. `,
        h("a", { href: toDomain({ ...route, fabric: best.fabric ? title : "" }, "") }, `Show ${title}`),
      ),
    ];
  }
  if (!lights || (lights.has(zoom) && lights.get(zoom) === lights.get(0))) return aside;
  const home = Math.max(0, ...[...lights].filter(([, pods]) => pods === lights.get(0)).map(([d]) => d));
  const some = lights.get(zoom) ?? 0;
  return [
    aside,
    h(
      "p",
      { class: "note" },
      some ? `${some} of the ${many(lights.get(0), "pod")} of ${story.name} are here. ` : `${story.name} is not here. `,
      h(
        "a",
        { href: toDomain(route, home ? fabric.name(home) : "") },
        home ? `Show ${fabric.name(home)}, where it is` : "Show the whole cluster",
      ),
    ),
  ];
}

function toProblems(event) {
  event.preventDefault();
  document.getElementById("problems")?.scrollIntoView({ behavior: "smooth" });
}

function crumbs({ fabric, zoom, route }) {
  const path = fabric.path(zoom);
  return h(
    "nav",
    { class: "crumbs", "aria-label": "Domains around the map" },
    path.map((d, i) =>
      i < path.length - 1
        ? h("a", { href: toDomain(route, d ? fabric.name(d) : "") }, fabric.name(d))
        : h("span", {}, fabric.name(d), h("span", { class: "soft" }, ` ${fabric.tier(d)}`)),
    ),
  );
}

/** What a domain has in words. */
function said({ fabric, resource }, d) {
  const [used, total, free] = ["used", "total", "free"].map((what) => short(resource, fabric.sum(what, d)));
  if (fabric.fragments) return `${used} of ${total} ${unit(resource)} fragmented on ${many(fabric.nodes(d), "node")}`;
  const shut = fabric.shut(d) ? `, ${many(fabric.shut(d), "node")} shut` : "";
  const over = fabric.over(d) ? `, ${many(fabric.over(d), "node")} overcommitted` : "";
  return `${used} of ${total} ${unit(resource)} in use, ${free} free on ${many(fabric.nodes(d), "node")}${shut}${over}`;
}

/** How far a cell is filled, and how far before this run. */
function filled(used, total, fresh) {
  const part = (amount) => (total > 0 ? Math.min(1, Math.max(0, amount / total)) : 0);
  return { b: part(used - fresh), u: part(used) };
}

class Drawing {
  constructor(view, open, nodes) {
    this.view = view;
    this.open = open;
    this.byDomain = new Map();
    for (const node of nodes) {
      const home = node.hyperNodes[view.tree];
      if (!this.byDomain.has(home)) this.byDomain.set(home, []);
      this.byDomain.get(home).push(node);
    }
    this.withNodes = nodes.length > 0;
    this.marks = new Set(); // that were drawn, for the legend
    this.prefixes = new Map(); // what the names in a domain share
    this.to = domainLinks(view.route);
    const tiles = !this.withNodes && this.tilesOf(view.zoom) <= TILES;
    const touched = window.innerWidth <= NARROW;
    const height = touched ? 1400 : Math.max(300, window.innerHeight - 370);
    this.layout = fitting(this, view.zoom, view.width, height, { tiles, least: touched ? 24 : 10 });
  }

  tilesOf(d) {
    // innermost opened domains below d
    return this.open.has(d) ? this.view.fabric.children[d].reduce((sum, child) => sum + this.tilesOf(child), 0) : 1;
  }

  /** The blocks in a block; those that hold only cells or tiles have none. */
  inner(d) {
    if (!this.open.has(d)) return [];
    const children = this.view.fabric.children[d].map((child) => this.below(child));
    return this.withNodes || children.some((child) => this.open.has(child)) ? children : [];
  }

  /** A domain that is all of another one stands for it. */
  below(d) {
    const { fabric } = this.view;
    const [only, ...others] = fabric.children[d];
    return this.open.has(d) && only !== undefined && !others.length && !fabric.own(d) ? this.below(only) : d;
  }

  units(d) {
    if (this.withNodes) return this.byDomain.get(d)?.length ?? 0;
    return this.open.has(d) ? this.view.fabric.children[d].length : 1;
  }

  /** What is in a block of a width. */
  inside(d, depth, width) {
    const { fabric } = this.view;
    const {
      columns: number,
      each: wide,
      gap: apart,
      row,
      cells: { columns, each, gap },
    } = this.layout.measure(depth, width);
    const inner = this.inner(d);
    if (inner.length)
      return [
        h(
          "div",
          { class: "inside", vars: { columns: number, gap: `${apart}px`, row: row ? `${row}px` : "auto" } },
          inner.map((child) => this.block(child, depth + 1, wide)),
        ),
        this.own(d),
      ];
    if (this.withNodes)
      return h(
        "div",
        { class: "inside cells", vars: { columns } },
        (this.byDomain.get(d) ?? []).map((node) => this.cell(node)),
      );
    const children = this.open.has(d) ? fabric.children[d] : [d];
    if (this.layout.tiles)
      return [
        h(
          "div",
          { class: "inside", vars: { columns, gap: `${gap}px`, row: "auto" } },
          children.map((child) => this.tile(child, each)),
        ),
        this.own(d),
      ];
    return [
      h(
        "div",
        { class: "inside cells", vars: { columns } },
        children.map((child) => this.domainCell(child)),
      ),
      this.own(d),
    ];
  }

  /** What the names of the domains in one have in common. */
  prefix(d) {
    const { fabric } = this.view;
    if (!this.prefixes.has(d)) this.prefixes.set(d, prefix(fabric.children[d].map((child) => fabric.name(child))));
    return this.prefixes.get(d);
  }

  /** What tells a domain from those beside it. */
  brief(d) {
    const { fabric } = this.view;
    return fabric.name(d).slice(this.prefix(Math.max(0, fabric.columns.parent[d])).length);
  }

  /** The name of a domain; where there is too little room for one of those beside it, what tells them apart. */
  label(d, width) {
    const { fabric } = this.view;
    const names = fabric.children[Math.max(0, fabric.columns.parent[d])].map((other) => fabric.name(other));
    return names.every((other) => 7 * other.length + 8 < width) ? fabric.name(d) : this.brief(d);
  }

  /** What the names in a domain share, above them, where they are told without it. */
  shared(d, width, depth = 0) {
    const { each, cells } = this.layout.measure(depth, width);
    const [first] = this.inner(d).length ? this.inner(d) : this.layout.tiles ? this.view.fabric.children[d] : [];
    if (first === undefined || !this.open.has(d)) return null;
    const kind = this.inner(d).length ? this.layout.frame(depth + 1) : { head: 1, side: 0 };
    const cut =
      kind.side > 0 || (kind.head > 0 && this.label(first, each ?? cells.each - 20) !== this.view.fabric.name(first));
    return cut && this.prefix(d) ? h("span", { class: "soft shared" }, name(this.prefix(d)), "…") : null;
  }

  /** How far something is filled. */
  fill(d) {
    const { fabric } = this.view;
    return [fabric.sum("used", d), fabric.scale(d), fabric.sum("new", d)];
  }

  /** What stands beside a domain: how much of it is in use; of fragments, how much. */
  amounts(d) {
    const { fabric, resource } = this.view;
    const used = short(resource, fabric.sum("used", d));
    return fabric.fragments ? used : `${used}/${short(resource, fabric.sum("total", d))}`;
  }

  /** What stands beside the label of a block, as far as there is room: what names in it share, and how full it is. */
  beside(d, label, width, depth) {
    const { fabric } = this.view;
    const room = width - 7 * label.length - 16 - (this.more(d) ? 24 : 0) - (this.badge(d) ? 34 : 0);
    const wide = 7 * this.prefix(d).length + 14;
    const shared = wide < room ? this.shared(d, width, depth) : null;
    const used =
      fabric.sum("total", d) && !fabric.fragments ? percent(fabric.sum("used", d) / fabric.sum("total", d)) : "";
    const left = room - (shared ? wide + 8 : 0);
    const amount = [this.amounts(d), used].find((text) => text && 7 * text.length < left);
    return [shared, width > 240 ? gauge(...this.fill(d)) : null, amount ? h("span", { class: "num" }, amount) : null];
  }

  block(d, depth, width) {
    const { fabric, route } = this.view;
    const labelled = depth <= this.layout.labels;
    const label = labelled ? this.label(d, width) : "";
    const frame = this.layout.frame(depth);
    return h(
      "div",
      {
        class: `block${frame.kind}${this.mark(d)}`,
        "data-key": fabric.name(d),
        title: labelled ? null : this.title(d),
      },
      labelled
        ? h(
            "div",
            { class: "name" },
            h(
              "a",
              { class: "stop", href: toDomain(route, fabric.name(d)), title: this.title(d), tabindex: "-1" },
              name(label),
              unseen(` ${this.title(d)}`),
            ),
            this.beside(d, label, width, depth),
            this.more(d),
            this.badge(d),
          )
        : frame.side
          ? h(
              "a",
              { class: "whose stop", href: this.to(fabric.name(d)), title: this.title(d), tabindex: "-1" },
              name(this.brief(d)),
            )
          : null,
      this.inside(d, depth, width),
    );
  }

  /** While somebody asks what if: one domain more is drawn in a block with a click. */
  more(d, text = "+") {
    const { fabric, route, tree } = this.view;
    const last = fabric.children[d].at(-1);
    if (!(route.asking || route.changes) || tree || last === undefined) return null;
    const title = `Add a domain like ${fabric.name(last)} to ${fabric.name(d)}`;
    return h(
      "a",
      {
        class: text === "+" ? "add stop" : "add",
        tabindex: text === "+" ? "-1" : null,
        href: withChange(route, "add-domains", `1=${fabric.name(last)}`),
        title,
        "aria-label": text === "+" ? title : null,
      },
      text,
    );
  }

  /** An innermost domain as a tile with a bar. */
  tile(d, each) {
    const { fabric, route } = this.view;
    const [used, total, fresh] = this.fill(d);
    return h(
      "div",
      { class: `tile${this.mark(d)}`, "data-key": fabric.name(d) },
      h(
        "a",
        { class: "label stop", href: toDomain(route, fabric.name(d)), title: this.title(d), tabindex: "-1" },
        h("b", {}, name(this.label(d, each - 20))),
        h("span", {}, this.amounts(d)),
        unseen(` ${this.title(d)}`),
      ),
      gauge(used, total, fresh),
      this.badge(d),
    );
  }

  /** An innermost domain as a cell. */
  domainCell(d) {
    const { fabric } = this.view;
    const [used, total, fresh] = this.fill(d);
    const shut = fabric.shut(d) === fabric.nodes(d) ? "shut" : fabric.shut(d) ? "partly" : "";
    const marks = this.marked(fresh && "new", fabric.over(d) && "over", shut);
    return h("a", {
      class: `stop cell ${marks}${this.mark(d)}`,
      "data-key": fabric.name(d),
      href: this.to(fabric.name(d)),
      title: this.title(d),
      tabindex: "-1",
      vars: filled(used, total, fresh),
    });
  }

  own(d) {
    // the nodes that hang on an opened domain itself
    const { fabric } = this.view;
    if (!fabric.own(d) || !fabric.children[d].length) return null;
    const nodes = this.byDomain.get(d) ?? [];
    const text = d
      ? `${many(fabric.own(d), "node")} directly in ${fabric.name(d)}`
      : `${many(fabric.own(d), "node")} in no domain`;
    return h(
      "div",
      { class: "tile own", role: "note" },
      h("span", { class: "label" }, h("b", {}, text)),
      nodes.length
        ? h(
            "span",
            { class: "cells" },
            nodes.map((node) => this.cell(node)),
          )
        : null,
    );
  }

  cell(node) {
    const { at, resource, jobKey, names, route } = this.view;
    const what = this.view.fabric.fragments ? ["fragmented", "total", "", "kept"] : ["used", "total", "new", "kept"];
    const [used, total, fresh, kept] = what.map((part) => node.amounts[part]?.[at] ?? 0);
    const marks = this.marked(
      fresh && "new",
      kept && "kept",
      node.state && "shut",
      node.over && "over",
      jobKey && node.jobs[jobKey] && "lit",
    );
    const jobs = Object.entries(node.jobs).map(([key, pods]) => `${names[key]?.[0] ?? key} (${many(pods, "pod")})`);
    const facts = [
      `${node.name}: ${short(resource, used)} of ${short(resource, total)} ${unit(resource)} ${this.view.fabric.fragments ? "fragmented" : "in use"}`,
      node.state,
      node.over ? "overcommitted" : "",
      ...jobs,
    ].filter(Boolean);
    return h("a", {
      class: `cell stop ${marks}`,
      "data-key": node.name,
      href: toNode(route, node.name),
      tabindex: "-1",
      vars: filled(used, total, fresh),
      title: facts.join("\n"),
    });
  }

  /** Marks as classes; the legend tells of those that were drawn. */
  marked(...marks) {
    const found = marks.filter(Boolean);
    found.forEach((mark) => this.marks.add(mark));
    return found.join(" ");
  }

  title(d) {
    const { fabric, lights, tried, fitting: room } = this.view;
    const lit = lights?.has(d)
      ? `; ${many(lights.get(d), "pod")} of the chosen job`
      : tried.has(d)
        ? `; the best of its tier for the chosen job: ${tried.get(d)} pods fit`
        : room?.has(d)
          ? `; takes ${many(room.get(d), "such gang")}`
          : "";
    return `${fabric.name(d)}${fabric.tier(d) ? `, ${fabric.tier(d)}` : ""}: ${said(this.view, d)}${lit}`;
  }

  /** The best place that was tried, where it is a domain or lies in one that is not drawn opened. */
  best(d) {
    const { fabric, tried } = this.view;
    if (tried.has(d) || this.open.has(d)) return tried.get(d);
    return [...tried].find(([at]) => fabric.path(at).includes(d))?.[1];
  }

  mark(d) {
    // the chosen job stands there; or it stands nowhere, and this is the best place that was tried; or a shape fits
    const { lights, fitting: room } = this.view;
    return lights?.has(d) ? " lit" : room?.has(d) ? " fits" : this.best(d) ? " tried" : "";
  }

  badge(d) {
    const { lights, fitting: room } = this.view;
    const text = lights?.has(d) ? lights.get(d) : room?.has(d) ? `×${room.get(d)}` : this.best(d);
    return text ? h("span", { class: "badge" }, String(text)) : null;
  }
}
