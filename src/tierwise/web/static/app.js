// The page: asks for the board, follows the address, draws. All state is the last answers and the address.

import { ask } from "./api.js";
import { drawCycles } from "./cycles.js";
import { fill, h } from "./dom.js";
import { Fabric } from "./fabric.js";
import { drawFigures } from "./figures.js";
import { age, clock, countFromStart } from "./format.js";
import { drawJob } from "./job.js";
import { listen, oneStop } from "./keys.js";
import { drawRunning, drawWaiting } from "./lists.js";
import { MOST_CELLS, drawMap } from "./map.js";
import { drawNode, drawNodes } from "./nodes.js";
import { drawProblems } from "./problems.js";
import { drawQueues } from "./queues.js";
import { closed, link, parse } from "./route.js";
import { searchable } from "./search.js";
import { drawServices } from "./services.js";
import { drawSlots } from "./slots.js";
import { drawTimeline, momentAt, shownMoment } from "./timeline.js";
import { drawWhatIf, submitted } from "./whatif.js";

const PERIOD = 3000;
const FIRST = 60,
  STEP = 200; // jobs of a list that are asked for at first, and with each wish for more
const WORDS = {
  // what became of the pods that the shown cycles placed, by where the board comes from
  manifests: {
    fresh: "placed",
    kept: "kept a place",
    leaving: "leaving",
    keeps: "a place is kept until resources are released",
  },
  cluster: {
    fresh: "placed",
    kept: "would be placed now",
    leaving: "leaving",
    keeps: "a cycle on this state would place it",
  },
  recording: {
    fresh: "placed at this moment",
    kept: "kept a place",
    leaving: "leaving",
    keeps: "a place is kept until resources are released",
  },
  scheduler: {
    fresh: "placed in the last cycle",
    kept: "kept a place",
    leaving: "leaving",
    keeps: "a place is kept until resources are released",
  },
};
const at = (id) => document.getElementById(id);
const path = (name) => name.split("/").map(encodeURIComponent).join("/");
/** The address of something as a state of the page asks for it: of a past moment, or with changes. */
function address(what, route, asked = {}) {
  const query = new URLSearchParams(asked);
  if (route.run) query.set("run", route.run);
  if (route.at) query.set("at", route.at);
  if (route.changes) query.set("if", route.changes);
  return `/api/${what}${query.size ? `?${query}` : ""}`;
}
const none = { value: null, changed: false };
const state = {
  board: null,
  story: null,
  node: null,
  nodes: null,
  asked: null,
  lists: {},
  changed: "",
  history: null,
  overTime: null,
  moreQueues: false,
  changes: null,
  happened: null,
  comparison: null,
  question: "",
  found: null,
  eta: null,
  etas: null,
  playing: false,
  timer: 0,
  speed: 1,
  fault: "",
  answered: 0,
  limits: { waiting: FIRST, running: FIRST },
  moreNodes: false,
};

/** The number of the tree that the address asks for; the first one is that of rows. */
function treeOf(board, route) {
  return Math.max(
    0,
    board.fabrics.findIndex((fabric) => fabric.title === route.fabric),
  );
}

function zoomOf(board, route) {
  const found = board.fabrics[treeOf(board, route)].name.indexOf(route.domain);
  return found > 0 ? found : 0;
}

function listAddress(name, route) {
  const asked = new URLSearchParams({ state: name, limit: String(state.limits[name]) });
  if (route.filter) asked.set("q", route.filter);
  if (route.queue) asked.set("queue", route.queue);
  if (name === "waiting") for (const field of ["verdict", "reason"]) if (route[field]) asked.set(field, route[field]);
  const sort = name === "waiting" ? route.sort : route.order;
  if (sort) asked.set("sort", sort);
  return address("jobs", route, asked);
}

/** Ask for all that the address needs; draws where something is new. */
async function refresh({ force = false } = {}) {
  const route = parse(location.hash);
  if (state.board && route.changes !== state.changed) {
    // an answer takes its time: what was asked is shown at once
    Object.assign(state, { changed: route.changes, comparison: null, question: "" });
    redraw();
  }
  try {
    const past = address("history", { run: route.run });
    if (route.at.startsWith("@")) {
      await resolve(route, past);
      return;
    }
    const [board, history] = await Promise.all([ask(address("board", route)), ask(past)]);
    if (!board.value) {
      go({ ...route, at: "", run: history.value?.runs.includes(route.run) ? route.run : "" });
      return;
    } // the moment is not kept any more
    const { moments, whole, recorded } = history.value;
    if (route.at && route.changes && !whole) {
      go({ ...route, at: "" });
      return;
    } // questions are about now, or a recording
    countFromStart(history.value.elapsed);
    const newest = moments.at(-1)?.id,
      chosen = shownMoment(history.value, route);
    const told = !route.at || whole; // whether nodes and stories are there
    const between = (from, to) => ask(address("changes", { run: route.run }, { from, to }));
    const zoom = zoomOf(board.value, route);
    const fabric = board.value.fabrics[treeOf(board.value, route)];
    const few = fabric.nodes[zoom] <= MOST_CELLS || !fabric.parent.includes(zoom);
    const answers = await Promise.all([
      few && told
        ? ask(
            address(
              `nodes/${path(fabric.name[zoom])}`,
              route,
              board.value.fabrics.length > 1 ? { fabric: fabric.title } : {},
            ),
          )
        : none,
      route.job && told ? ask(address(`jobs/${path(route.job)}`, route)) : none,
      route.node && told ? ask(address(`node/${path(route.node)}`, route)) : none,
      ask(listAddress("waiting", route)),
      ask(listAddress("running", route)),
      route.at && chosen < moments.length - 1 ? between(moments[chosen].id, newest) : none,
      (route.at || recorded) && chosen > 0 ? between(moments[chosen - 1].id, moments[chosen].id) : none,
      route.changes ? ask(address("what-if", { changes: route.changes, run: route.run, at: route.at })) : none,
      moments.length > 1 && !recorded ? ask("/api/history/queues") : none,
    ]);
    if (location.hash !== "" && link(parse(location.hash)) !== link(route)) return; // somebody went on meanwhile
    const [nodes, story, node, waiting, running, changes, happened, comparison, overTime] = answers.map(
      (answer) => answer.value,
    );
    const another = story?.key !== state.story?.key;
    if (another || board.changed)
      Object.assign(state, { asked: null, found: null, eta: null, ...(board.changed ? { etas: null } : {}) });
    const changed = board.changed || history.changed || force || answers.some((answer) => answer.changed);
    Object.assign(state, {
      board: board.value,
      nodes,
      story,
      node,
      lists: { waiting, running },
      history: history.value,
      overTime,
      changes,
      happened,
      comparison,
      question: "",
      fault: board.value.fault,
      answered: Date.now(),
    });
    if (changed) draw(route, zoom);
    if (state.playing) state.timer = setTimeout(step, 1000 / state.speed); // not before what was asked for is drawn
  } catch (error) {
    if (route.changes && state.board) {
      // the question makes no sense: say so beside it, and show what is there
      state.question = error.message;
      state.comparison = null;
      redraw();
      return;
    }
    if (route.changes) {
      go({ ...route, changes: "" });
      return;
    }
    state.fault = error.message;
    if (!state.board) at("page").setAttribute("aria-busy", "false");
  }
  tell();
}

/** What is wrong, and how old the picture is. */
function tell() {
  const { board, fault } = state;
  if (state.history?.recorded) {
    // nothing of it is of now
    at("asof").textContent = "recorded";
    at("fault").hidden = !fault;
    at("fault").textContent = fault;
    return;
  }
  const since = board ? `What is shown is of ${clock(board.made || state.answered / 1000)}.` : "";
  at("fault").hidden = !fault;
  at("fault").textContent = fault ? `${fault}. ${since}`.replace("..", ".") : "";
  const seconds = board?.made ? Date.now() / 1000 - board.made : 0;
  at("asof").textContent = board?.made && !fault ? `as of ${age(Math.max(0, seconds))} ago` : "";
}

function viewOf(route, zoom) {
  const { board, story, node } = state;
  const resource = board.resources.includes(route.resource) ? route.resource : board.resources[0];
  const live = ["cluster", "scheduler"].includes(board.mode) && !route.at;
  const tree = treeOf(board, route);
  const lit = story?.hyperNodes[tree] ?? [];
  return {
    board,
    route,
    zoom,
    resource,
    tree,
    fabric: new Fabric(board.fabrics[tree], resource, route.show === "fragmented"),
    first: new Fabric(board.fabrics[0], resource),
    story,
    node,
    asked: state.asked,
    lists: state.lists,
    at: board.resources.indexOf(resource),
    words: WORDS[board.mode],
    now: live ? Math.max(board.now, Date.now() / 1000) : board.now,
    width: Math.max(280, at("fabric").clientWidth - 34),
    jobKey: story?.key ?? "",
    names: state.nodes?.names ?? {},
    lights: lit.length ? new Map(lit) : null,
    tried: new Map(
      (lit.length ? [] : (story?.why?.tried ?? []))
        .filter((t) => t.bestIndex > 0 && t.fabric === tree)
        .map((t) => [t.bestIndex, `${t.fits}/${t.asked}`]),
    ),
    nodes: state.nodes?.nodes ?? null,
    nodeCount: state.nodes?.count ?? 0,
    moreNodes: state.moreNodes,
    showNodes() {
      state.moreNodes = true;
      refresh({ force: true });
    },
    overTime: state.overTime,
    moreQueues: state.moreQueues,
    showQueues() {
      state.moreQueues = true;
      redraw();
    },
    showMore(name) {
      state.limits[name] += STEP;
      refresh({ force: true });
    },
    asks: board.whatIf || route.changes !== "",
    askNodes,
    askLeast,
    askEta,
    askEtas,
    eta: state.eta,
    etas: state.etas,
    found: state.found,
    comparison: state.comparison,
    question: state.question,
    async submit(text) {
      try {
        location.hash = await submitted(route, text);
      } catch (error) {
        state.question = error.message;
        redraw();
      }
    },
    history: state.history,
    changes: state.changes,
    happened: state.happened,
    playing: state.playing,
    speed: state.speed,
    play,
    jump,
    setSpeed(speed) {
      state.speed = speed;
      redraw();
    },
  };
}

/** Lead from a time in the address ("@14:20", "@1763302800") to the moment of that time. */
async function resolve(route, past) {
  const history = (await ask(past)).value;
  const text = route.at.slice(1);
  const found = /^[\d.]+$/.test(text)
    ? (history.moments.findLast((moment) => moment.now <= Number(text)) ?? history.moments[0])
    : momentAt(history, text);
  jump(found ? String(found.id) : "");
}

/** Show a moment, of another run where one is named; one that was only passed is no place to come back to. */
function jump(at, run = parse(location.hash).run) {
  location.replace(link({ ...parse(location.hash), at, run }));
}

/** Show one moment after the other, up to the last; a second press stops. */
function play() {
  clearTimeout(state.timer);
  state.playing = !state.playing;
  if (!state.playing) {
    redraw();
    return;
  }
  const { moments } = state.history;
  if (shownMoment(state.history, parse(location.hash)) === moments.length - 1) jump(String(moments[0].id));
  else step();
}

function step() {
  const { moments } = state.history;
  const next = shownMoment(state.history, parse(location.hash)) + 1;
  if (!state.playing) return;
  if (next >= moments.length) {
    state.playing = false;
    redraw();
    return;
  }
  jump(next === moments.length - 1 ? "" : String(moments[next].id));
}

async function askNodes() {
  if (state.asked || !state.story) return;
  const { key } = state.story;
  try {
    state.asked = (await ask(address(`nodes-for/${path(key)}`, parse(location.hash)))).value ?? { none: true };
  } catch {
    return;
  }
  if (state.story?.key === key) redraw();
}

async function askLeast() {
  if (state.found || !state.story) return;
  const { key } = state.story;
  try {
    state.found = (await ask(address(`least/${path(key)}`, { ...parse(location.hash), changes: "" }))).value;
  } catch (error) {
    state.found = { fault: error.message };
  }
  if (state.story?.key === key) redraw();
}

async function askEta() {
  if (state.eta || !state.story) return;
  const { key } = state.story;
  try {
    state.eta = { key, ...(await ask(`/api/eta/${path(key)}`)).value };
  } catch (error) {
    state.eta = { key, fault: error.message };
  }
  if (state.story?.key === key) redraw();
}

async function askEtas() {
  try {
    state.etas = (await ask("/api/eta")).value;
  } catch (error) {
    state.etas = { fault: error.message };
  }
  redraw();
}

function redraw() {
  if (!state.board) return;
  const route = parse(location.hash);
  draw(route, zoomOf(state.board, route));
}

function draw(route, zoom) {
  const view = viewOf(route, zoom);
  const { board } = view;
  const opened = route.job || route.node;
  document.title = `${opened ? `${view.story?.name ?? opened} · ` : ""}tierwise`;
  at("about").textContent = [board.mode === "manifests" ? board.outcome : "", board.title].filter(Boolean).join(" · ");
  at("about").title = board.title;
  at("clock").textContent = clock(board.now);
  fill(
    at("resource"),
    board.resources.map((name) => h("option", { value: name, selected: name === view.resource }, name)),
  );
  at("resource").value = view.resource;
  fill(at("figures"), drawFigures(view));
  const innermost = !view.fabric.children[zoom].length;
  fill(at("fabric"), drawMap(view), innermost && view.nodes ? drawNodes(view) : null);
  oneStop(at("fabric"));
  drawer(view, opened);
  fill(at("waiting"), drawWaiting(view));
  fill(at("running"), drawRunning(view));
  at("what").hidden = !view.asks;
  at("what").setAttribute("href", link({ ...route, asking: "1", at: state.history.whole ? route.at : "" }));
  at("whatif").hidden = !(route.asking || route.changes);
  fill(at("whatif"), at("whatif").hidden ? [] : drawWhatIf(view));
  if (asked !== route.asking + route.changes) {
    // what was asked for is in view, and a half-written change has the focus
    asked = route.asking + route.changes;
    if (asked) at("whatif").scrollIntoView({ block: "nearest" });
    const field = route.asking ? at("whatif").querySelector("input[name=text]") : null;
    field?.focus({ preventScroll: true });
    field?.setSelectionRange(field.value.length, field.value.length);
  }
  at("time").hidden = state.history.moments.length < 2 || Boolean(route.changes);
  fill(at("time"), at("time").hidden ? [] : drawTimeline(view));
  document.body.classList.toggle("past", Boolean(route.at) || state.history.recorded);
  at("services").hidden = !board.services;
  fill(at("services"), board.services ? drawServices(view) : []);
  fill(at("slots"), drawSlots(view));
  fill(at("queues"), drawQueues(view));
  fill(at("cycles"), drawCycles(view));
  at("problems").hidden = !board.problems.length;
  fill(at("problems"), board.problems.length ? drawProblems(view) : []);
  at("page").setAttribute("aria-busy", "false");
}

let asked = ""; // what if
let before = "",
  opener = ""; // what the drawer showed, and the link that opened it first

/** The drawer beside the map: what was clicked is in view at every width, has the focus, and is announced. */
function drawer(view, opened) {
  const panel = at("drawer");
  const scrolled = panel.scrollTop;
  panel.hidden = !opened;
  document.body.classList.toggle("opened", Boolean(opened));
  fill(panel, !opened ? [] : view.route.job ? drawJob(view) : drawNode(view));
  if (opened === before) {
    panel.scrollTop = scrolled;
    return;
  }
  if (opened) {
    if (!before) opener = document.activeElement?.getAttribute?.("href") ?? "";
    panel.scrollTop = 0;
    const title = panel.querySelector("h2");
    title?.focus({ preventScroll: true });
    at("spoken").textContent =
      `${title?.textContent ?? opened} is open. ${panel.querySelector(".said")?.textContent ?? ""}`;
    at("fabric").querySelector(".lit, .tried")?.scrollIntoView({ block: "nearest" });
  } else {
    at("spoken").textContent = "closed";
    const links = opener ? [...document.querySelectorAll("a[href]")] : [];
    links.find((found) => found.getAttribute("href") === opener)?.focus({ preventScroll: true });
  }
  before = opened;
}

function go(route) {
  location.hash = link(route);
}

listen({
  back() {
    const route = parse(location.hash);
    if (route.job || route.node) location.hash = closed(route);
    else if (route.filter || route.queue || route.reason)
      go({ ...route, filter: "", queue: "", verdict: "", reason: "" });
    else if (route.domain) go({ ...route, domain: "" });
  },
  time(by) {
    if (!state.history || state.history.moments.length < 2) return;
    const number = shownMoment(state.history, parse(location.hash)) + by;
    if (by === 0) play();
    else if (state.history.moments[number])
      jump(number === state.history.moments.length - 1 ? "" : String(state.history.moments[number].id));
  },
  up() {
    const route = parse(location.hash);
    const zoom = state.board ? zoomOf(state.board, route) : 0;
    const fabric = state.board?.fabrics[treeOf(state.board, route)];
    const parent = zoom ? fabric.parent[zoom] : 0;
    if (zoom) go({ ...route, domain: parent > 0 ? fabric.name[parent] : "" });
  },
});
searchable(at("search"), at("hits"));
at("resource").addEventListener("change", (event) => {
  const chosen = event.target.value;
  go({ ...parse(location.hash), resource: chosen === state.board.resources[0] ? "" : chosen });
});
at("skip").addEventListener("click", (event) => {
  event.preventDefault();
  at("waiting").focus();
  at("waiting").scrollIntoView();
});
window.addEventListener("hashchange", () => refresh({ force: true }));
let width = 0;
new ResizeObserver(() => {
  if (Math.abs(at("fabric").clientWidth - width) > 8) {
    width = at("fabric").clientWidth;
    redraw();
  }
}).observe(at("fabric"));
// The server tells when there is something new, while the page is in view: a browser has few connections to one host,
// and pages that nobody looks at must not hold them. Where no stream can be had, the page asks every few seconds.
let news = null;
function hear() {
  if (news || document.visibilityState !== "visible") return;
  news = new EventSource(address("events", { run: parse(location.hash).run }));
  news.addEventListener("board", () => refresh());
}
function hush() {
  news?.close();
  news = null;
}
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") {
    hear();
    refresh();
  } else hush();
});
window.addEventListener("pagehide", hush);
window.addEventListener("pageshow", hear);
setInterval(() => {
  if (document.visibilityState === "visible" && (news?.readyState !== EventSource.OPEN || state.fault)) refresh();
}, PERIOD);
setInterval(tell, 1000);
refresh({ force: true });
