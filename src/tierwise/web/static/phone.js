// A layout of its own for narrow screens: what deserves attention, what waits, the fabric as a list, and the rest folded
// under its name.

import { gauge, h, name } from "./dom.js";
import { count, percent, short } from "./format.js";
import { link, toDomain } from "./route.js";

const ROWS = 24; // domains of a list; the table has all

/** Whether the screen is that of a phone. */
export const isPhone = () => matchMedia("(max-width: 600px)").matches;

/** A section under its name, to be opened; on wider screens as it is. */
export function folded(phone, id, title, content) {
  if (!phone) return content;
  return h("details", { class: "fold", "data-key": `fold-${id}` }, h("summary", {}, h("h2", {}, title)), content);
}

/** The domains inside the opened one as a list: how full each is, and what is marked in it. */
export function listOfDomains(view) {
  const { fabric, zoom, route, resource } = view;
  const inner = fabric.children[zoom];
  if (!inner.length) return null;
  const marked = (d) => (view.lights?.has(d) || view.fitting?.has(d) ? 0 : 1);
  const shown = [...inner].sort((one, other) => marked(one) - marked(other)).slice(0, ROWS);
  const table = link({ ...route, table: "domains", tier: String(fabric.columns.tier[inner[0]]), find: "", by: "" });
  return [
    h(
      "ul",
      { class: "domains", "aria-label": "Domains" },
      shown.map((d) => h("li", { "data-key": fabric.name(d) }, row(view, d))),
    ),
    h("p", {}, h("a", { class: "button", href: table }, `All ${count(inner.length)} as a table`)),
  ];

  function row(of, d) {
    const used = fabric.sum("used", d);
    const total = fabric.sum("total", d);
    const shut = fabric.shut(d);
    return [
      h("a", { class: "stop", href: toDomain(route, fabric.name(d)) }, name(fabric.name(d))),
      gauge(used, fabric.scale(d), fabric.sum("new", d)),
      h(
        "span",
        { class: "num" },
        `${short(resource, used)} of ${short(resource, total)}${total ? `, ${percent(used / total)}` : ""}`,
      ),
      shut ? h("span", { class: "warn" }, `${count(shut)} take no pods`) : null,
      of.fitting?.has(d) ? h("span", { class: "good" }, `takes ${count(of.fitting.get(d))}`) : null,
      of.lights?.has(d) ? h("span", { class: "chip" }, `${count(of.lights.get(d))} pods of the job`) : null,
      of.tried?.has(d) ? h("span", { class: "chip" }, of.tried.get(d)) : null,
    ];
  }
}
