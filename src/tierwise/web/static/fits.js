// What fits where: a shape is typed, or the opened job is taken, and every domain that takes it lights up in the map.

import { h, name } from "./dom.js";
import { count, many, unit } from "./format.js";
import { drawNear } from "./near.js";
import { link, toDomain } from "./route.js";

const THIS_JOB = "this job";

/** What the server is asked, for the shape in the address; nothing where it is about a job and none is open.
 *
 * @returns {Record<string, string> | null} */
export function fitsAsked(route) {
  if (route.fits !== THIS_JOB) return route.fits ? { shape: route.fits } : null;
  return route.job ? { job: route.job } : null;
}

/** A shape in words: so much in one domain of a tier, by whole nodes where one holds less. */
export function shapeOf({ fabric, resource }, size, tier) {
  const each = Math.max(
    1,
    Math.round(fabric.sum("total", 0) / Math.max(1, fabric.nodes(0)) / (resource === "cpu" ? 1000 : 1)),
  );
  const pods = Math.max(1, Math.ceil(size / each));
  const word = tier === null ? "" : ` in one ${fabric.tierNames.get(tier) || `tier ${tier}`}`;
  return `${pods} × ${Math.min(size, each)} ${unit(resource)}${word}`;
}

/** The field, and what was found. */
export function drawFits(view) {
  const { route, fits, story, fabric, tree } = view;
  const go = (text) => {
    location.hash = link({ ...route, fits: text });
  };
  const submit = (event) => {
    event.preventDefault();
    go(event.currentTarget.elements.shape.value.trim());
  };
  const waits = story?.line?.waiting;
  const least = fabric.columns.tiers[0];
  const example = `64 × 1 ${unit(view.resource)} in one ${least?.name || `tier ${least?.tier ?? 1}`}`;
  return [
    h(
      "form",
      { class: "ask", "data-key": "fits", on: { submit } },
      h("label", { for: "shape" }, "What fits where?"),
      h("input", {
        id: "shape",
        name: "shape",
        "data-begun": route.fits,
        value: route.fits,
        placeholder: example,
        autocomplete: "off",
      }),
      h("button", {}, "Show"),
      waits ? h("button", { type: "button", on: { click: () => go(THIS_JOB) } }, THIS_JOB) : null,
      route.fits ? h("a", { class: "button", href: link({ ...route, fits: "" }) }, "✕ clear") : null,
    ),
    route.fits === THIS_JOB && !route.job ? h("p", { class: "note warn" }, "Open a job that waits first.") : null,
    fits?.fault ? h("p", { class: "note warn", role: "alert" }, fits.fault) : null,
    fits?.asked ? answer(view, fits, fits.trees[tree]) : null,
    fits?.asked && !fits.trees[tree].taking && !tree ? drawNear(view, fits) : null,
  ];
}

function answer({ fabric, route }, fits, { domains, taking, gangs, roomiest }) {
  const more = taking - roomiest.length;
  return h(
    "p",
    { class: "note", role: "status" },
    h("b", { class: taking ? "good" : "bad" }, taking ? `${count(taking)} of ${many(domains, "domain")}` : "No domain"),
    taking === 1 || !taking ? " takes " : " take ",
    fits.asked,
    gangs > 1 ? `, ${count(gangs)} such gangs in all` : "",
    roomiest.length ? ": " : ".",
    roomiest.map(([d, number], i) => [
      i ? ", " : "",
      h("a", { href: toDomain(route, fabric.name(d)) }, name(fabric.name(d))),
      number > 1 ? ` (${count(number)})` : "",
    ]),
    more > 0 ? ` and ${count(more)} more` : "",
  );
}
