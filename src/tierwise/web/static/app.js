// The page: asks for the board, follows the address, draws. All state is the last answers and the address.

import { ask } from "./api.js";
import { drawCycles } from "./cycles.js";
import { fill, h, head, table } from "./dom.js";
import { Fabric } from "./fabric.js";
import { drawFigures } from "./figures.js";
import { clock } from "./format.js";
import { drawJob } from "./job.js";
import { listen, oneStop } from "./keys.js";
import { drawRunning, drawWaiting } from "./lists.js";
import { MOST_CELLS, drawMap } from "./map.js";
import { drawNodes } from "./nodes.js";
import { drawQueues } from "./queues.js";
import { link, parse } from "./route.js";
import { drawSlots } from "./slots.js";

const PERIOD = 3000;
const WORDS = { // what became of the pods that the shown cycles placed, by where the board comes from
  manifests: { fresh: "placed", kept: "kept a place", leaving: "leaving", keeps: "a place is kept until resources are released" },
  cluster: { fresh: "placed", kept: "would be placed now", leaving: "leaving", keeps: "a cycle on this state would place it" },
  scheduler: { fresh: "placed in the last cycle", kept: "kept a place", leaving: "leaving", keeps: "a place is kept until resources are released" },
};
const at = (id) => document.getElementById(id);
const state = { board: null, story: null, nodes: null, domain: "", filter: "", more: new Set() };

function zoomOf(board, route) {
  const found = board.fabric.name.indexOf(route.domain);
  return found > 0 ? found : 0;
}

/** Ask for all that the address needs; draws where something is new. */
async function refresh({ force = false } = {}) {
  const route = parse(location.hash);
  try {
    const board = await ask("/api/board");
    const zoom = zoomOf(board.value, route);
    const name = board.value.fabric.name[zoom];
    const few = board.value.fabric.nodes[zoom] <= MOST_CELLS || !board.value.fabric.parent.includes(zoom);
    const [nodes, story] = await Promise.all([
      few ? ask(`/api/nodes/${encodeURIComponent(name)}`) : { value: null, changed: false },
      route.job ? ask(`/api/jobs/${route.job.split("/").map(encodeURIComponent).join("/")}`) : { value: null, changed: false },
    ]);
    const changed = board.changed || nodes.changed || story.changed || force;
    Object.assign(state, { board: board.value, nodes: nodes.value, story: story.value });
    complain(board.value.fault);
    if (changed) draw(route, zoom);
  } catch (error) {
    complain(error.message);
  }
}

function complain(text) {
  at("fault").hidden = !text;
  at("fault").textContent = text;
}

function viewOf(route, zoom) {
  const { board, story } = state;
  const resource = board.resources.includes(route.resource) ? route.resource : board.resources[0];
  const wanted = state.filter.toLowerCase();
  const matches = (job) => [job.name, job.key, job.queue, job.reason].some((text) => text.toLowerCase().includes(wanted));
  const fabric = new Fabric(board.fabric, resource);
  const live = board.mode !== "manifests";
  return {
    board, route, zoom, resource, fabric, story, at: board.resources.indexOf(resource), words: WORDS[board.mode],
    now: live ? Math.max(board.now, Date.now() / 1000) : board.now,
    jobs: wanted ? board.jobs.list.filter(matches) : board.jobs.list,
    jobKey: story?.key ?? "",
    jobNames: new Map(board.jobs.list.map((job) => [job.key, job.name])),
    jobPaths: new Map(board.jobs.list.map((job) => [job.key, job.path])),
    lights: story?.domains.length ? new Map(story.domains) : null,
    tried: new Map((story?.domains.length ? [] : story?.why?.tried ?? []).map((t) => [t.best, `${t.fits}/${t.asked}`])),
    nodes: state.nodes?.nodes ?? null, nodeCount: state.nodes?.count ?? 0, moreNodes: state.more.has("nodes"),
    shown: [true, fabric.sum("new", 0) > 0, true, fabric.sum("kept", 0) > 0, fabric.shut(0) > 0],
    more: state.more, show, showNodes: () => show("nodes"),
  };
}

function show(list) {
  state.more.add(list);
  refresh({ force: true });
}

function draw(route, zoom) {
  const view = viewOf(route, zoom);
  const { board } = view;
  document.title = `${route.job ? `${view.story?.name ?? route.job} · ` : ""}tierwise`;
  at("about").textContent = [board.mode === "manifests" ? board.outcome : "", board.title, clock(board.now)].filter(Boolean).join(" · ");
  fill(at("resource"), board.resources.map((name) => h("option", { value: name, selected: name === view.resource }, name)));
  fill(at("figures"), drawFigures(view));
  const innermost = !view.fabric.children[zoom].length;
  fill(at("fabric"), drawMap(view), innermost && view.nodes ? drawNodes(view) : null);
  oneStop(at("fabric"));
  at("job").hidden = !route.job;
  fill(at("job"), route.job ? drawJob(view) : []);
  fill(at("waiting"), drawWaiting(view));
  fill(at("running"), drawRunning(view));
  fill(at("slots"), drawSlots(view));
  fill(at("queues"), drawQueues(view));
  fill(at("cycles"), drawCycles(view));
  at("problems").hidden = !board.problems.length;
  fill(at("problems"), head("Problems"), table([
    ["object", (p) => p.object], ["", (p) => h("span", { class: p.severity === "error" ? "bad" : "warn" }, p.code)],
    ["", (p) => p.message, "grow"]], board.problems));
  at("page").setAttribute("aria-busy", "false");
}

function go(route) { location.hash = link(route); }

listen({
  back() {
    const route = parse(location.hash);
    if (state.filter) { state.filter = ""; at("filter").value = ""; refresh({ force: true }); }
    else if (route.job) go({ ...route, job: "" });
    else if (route.domain) go({ ...route, domain: "" });
  },
  up() {
    const route = parse(location.hash);
    const zoom = state.board ? zoomOf(state.board, route) : 0;
    const parent = zoom ? state.board.fabric.parent[zoom] : 0;
    if (zoom) go({ ...route, domain: parent > 0 ? state.board.fabric.name[parent] : "" });
  },
});
at("resource").addEventListener("change", (event) => {
  const chosen = event.target.value;
  go({ ...parse(location.hash), resource: chosen === state.board.resources[0] ? "" : chosen });
});
at("filter").addEventListener("input", (event) => { state.filter = event.target.value; refresh({ force: true }); });
window.addEventListener("hashchange", () => refresh({ force: true }));
setInterval(() => { if (document.visibilityState === "visible") refresh(); }, PERIOD);
refresh({ force: true });
