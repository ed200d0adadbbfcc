// The page: asks for the board, follows the address, draws. What is kept between two drawings is the last answers, what
// somebody wished to see more of, and what was worked out for them.

import { address, listAddress, path, treeOf, zoomOf } from "./addresses.js";
import { ask, looked, server } from "./api.js";
import { Asides, said } from "./asides.js";
import { drawAttention } from "./attention.js";
import { drawCycles } from "./cycles.js";
import { fill, h } from "./dom.js";
import { fitsAsked } from "./fits.js";
import { drawFigures } from "./figures.js";
import { age, clock, countFromStart, thousands } from "./format.js";
import { drawJob } from "./job.js";
import { listen, oneStop } from "./keys.js";
import { drawRunning, drawWaiting } from "./lists.js";
import { MOST_CELLS, drawMap } from "./map.js";
import { News } from "./news.js";
import { drawNode, drawNodes } from "./nodes.js";
import { during, momentAt, pastOf, shownMoment, spanOf } from "./past.js";
import { Player, jump } from "./player.js";
import { folded, isPhone } from "./phone.js";
import { drawProblems } from "./problems.js";
import { WhatIfQuestion } from "./question.js";
import { drawQueues } from "./queues.js";
import { closed, link, parse } from "./route.js";
import { searchable } from "./search.js";
import { drawServices } from "./services.js";
import { drawSlots } from "./slots.js";
import { drawTable, tableAsked } from "./table.js";
import { drawTimeline } from "./timeline.js";
import { viewOf } from "./view.js";
import { drawWhatIf, submitted } from "./whatif.js";

const PERIOD = 3000;
const STEP = 200; // jobs of a list that come with each wish for more

/** @returns {Any} an element of the page */
const at = (id) => document.getElementById(id);
const none = { value: null, changed: false };

/** @type {Answers | null} */
let answers = null; // the last ones
let answered = 0; // when they came
let fault = ""; // what is wrong with the server, or with what it reads
const question = new WhatIfQuestion(redraw, () => refresh({ force: true })); // what if
/** @type {Board | null} */
let base = null; // the board without changes
const wishes = { waiting: 0, running: 0, rows: 0, moreQueues: false, moreNodes: false };
const asides = new Asides(redraw);
const player = new Player(() => answers?.history, redraw);

/** What somebody can do on the page, with what is worked out for them. */
function acts(route) {
  return {
    asked: asides.nodes,
    found: asides.least,
    eta: asides.eta,
    etas: asides.etas,
    askNodes: asides.askNodes,
    askLeast: asides.askLeast,
    askEta: asides.askEta,
    askEtas: asides.askEtas,
    drains: asides.drains,
    askDrains: asides.askDrains,
    counted: asides.counted,
    end: asides.end,
    before: base,
    comparison: question.comparison,
    progress: question.progress,
    worked: live() && question.at ? workedOut(route) : null,
    playing: player.playing,
    speed: player.speed,
    play: player.play,
    setSpeed: player.setSpeed,
    jump,
    during: choose,
    question: question.fault,
    moreQueues: wishes.moreQueues,
    moreNodes: wishes.moreNodes,
    showNodes() {
      wishes.moreNodes = true;
      refresh({ force: true });
    },
    showQueues() {
      wishes.moreQueues = true;
      redraw();
    },
    showMore(name) {
      wishes[name] += STEP;
      refresh({ force: true });
    },
    async submit(text) {
      try {
        location.hash = await submitted(route, text);
      } catch (error) {
        question.fault = said(error);
        redraw();
      }
    },
  };
}

/** Ask for all that the address needs; draws where something is new. */
async function refresh({ force = false } = {}) {
  const route = parse(location.hash);
  const shown = asked(route); // without the changes, until it is worked out what they do
  try {
    if (route.at.startsWith("@")) {
      await resolve(route);
      return;
    }
    const [board, history] = await Promise.all([ask(address("board", shown)), pastOf(route.run)]);
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
    const told = !route.at || whole; // whether stories are there
    const of = (what, asked) => ask(address(what, { run: route.run }, asked));
    const span = during(route);
    const zoom = zoomOf(board.value, route);
    const fabric = board.value.fabrics[treeOf(board.value, route)];
    const rows = tableAsked(route, wishes.rows);
    const few = fabric.nodes[zoom] <= MOST_CELLS || !fabric.parent.includes(zoom);
    /** @type {Record<string, string>} */
    const inFabric = board.value.fabrics.length > 1 ? { fabric: fabric.title } : {};
    const found = await Promise.all([
      few ? ask(address(`nodes/${path(fabric.name[zoom])}`, shown, inFabric)) : none,
      route.job && told ? ask(address(`jobs/${path(route.job)}`, shown)) : none,
      route.node ? ask(address(`node/${path(route.node)}`, shown)) : none,
      fitsAsked(route) && told ? ask(address("fits", shown, fitsAsked(route) ?? {})) : none,
      ask(listAddress("waiting", shown, wishes.waiting, board.value.jobs.waiting)),
      ask(listAddress("running", shown, wishes.running)),
      route.at && chosen < moments.length - 1 ? of("happened", { after: moments[chosen].id, upto: newest }) : none,
      span
        ? of("happened", span)
        : (route.at || recorded) && chosen > 0
          ? of("happened", { after: moments[chosen - 1].id, upto: moments[chosen].id })
          : none,
      moments.length > 1 && !recorded ? ask("/api/history/queues") : none,
      route.job ? of(`life/${path(route.job)}`, {}) : none,
      rows ? ask(address(`table/${route.table}`, shown, rows)).catch(refused) : none,
    ]);
    if (location.hash !== "" && link(parse(location.hash)) !== link(route)) return; // somebody went on meanwhile
    const [nodes, story, node, fits, waiting, running, changes, happened, overTime, life, table] = found.map(
      (answer) => answer.value,
    );
    asides.about(story?.key ?? "", board.changed && !live(board.value)); // of what lives, answers are of their time
    const lists = { waiting, running };
    const time = { history: history.value, overTime, changes, happened, life };
    answers = { board: board.value, nodes, story, node, fits, table, lists, ...time };
    if (!shown.changes) base = board.value;
    fault = board.value.fault;
    answered = Date.now();
    if (board.changed || history.changed || force || found.some((answer) => answer.changed)) draw(answers, route);
    player.goOn(); // not before what was asked for is drawn
  } catch (error) {
    fault = said(error);
    if (!answers) at("page").setAttribute("aria-busy", "false");
  }
  tell();
}

/** What cannot be read of a wish is told where it was written. */
const refused = (error) => ({
  value: { fault: said(error), columns: [], rows: [], count: 0, of: 0, sort: "" },
  changed: true,
});

/** Ask what the address asks, and say which board can be asked for meanwhile. */
function asked(route) {
  question.about(route);
  return question.ready ? route : { ...route, changes: "" };
}

/** Whether what is shown goes on by itself: an answer is then about the time at which it was asked. */
function live(board = answers?.board) {
  return base ? ["scheduler", "cluster"].includes(base.mode) : ["scheduler", "cluster"].includes(board?.mode ?? "");
}

/** For which time an answer was worked out, with the way to ask again. */
function workedOut(route) {
  const again = (event) => {
    event.preventDefault();
    question.about(route, true);
    redraw();
  };
  return [
    `For the cluster of ${clock(question.at)}. `,
    h("a", { href: link(route), on: { click: again } }, "Ask again"),
  ];
}

/** What is wrong, and how old the picture is. */
function tell() {
  const board = answers?.board;
  at("fault").hidden = !fault;
  if (answers?.history.recorded) {
    // nothing of it is of now
    at("asof").textContent = "recorded";
    at("fault").textContent = fault;
    return;
  }
  const since = board ? `What is shown is of ${clock(server.checked || board.made || answered / 1000)}.` : "";
  at("fault").textContent = fault ? `${fault}. ${since}`.replace("..", ".") : "";
  const seconds = Math.max(0, Date.now() / 1000 - server.checked);
  at("asof").textContent = board?.made && server.checked && !fault ? `checked ${age(seconds)} ago` : "";
}

/** Lead from a time in the address to the moment of that time: "@14:20" is a whole minute, "@1763302800" a moment. */
async function resolve(route) {
  const history = (await pastOf(route.run)).value;
  const text = route.at.slice(1);
  const span = spanOf(history, text);
  const found = history.moments.length ? momentAt(history, span ? span.to : Number(text)) : null;
  choose(span, found ? String(found.id) : "");
}

/** Show a while and the moment at its end; without one, the moment alone. */
function choose(span, at) {
  const route = parse(location.hash);
  const end = at ?? (span && answers ? String(momentAt(answers.history, span.to).id) : route.at);
  location.replace(link({ ...route, at: end, during: span ? `${span.from}-${span.to}` : "" }));
}

function redraw() {
  if (answers) draw(answers, parse(location.hash));
}

/** @param {Answers} found
 * @param {Route} route */
function draw(found, route) {
  const phone = isPhone();
  document.body.classList.toggle("phone", phone);
  const view = { ...viewOf(found, route, at("fabric").clientWidth - 34, acts(route)), phone };
  const { board, history, zoom } = view;
  const opened = route.job || route.node;
  document.title = `${opened ? `${view.story?.name ?? opened} · ` : ""}tierwise`;
  at("about").textContent = [board.mode === "manifests" ? thousands(board.outcome) : "", board.title]
    .filter(Boolean)
    .join(" · ");
  at("about").title = board.title;
  at("clock").textContent = clock(board.now);
  fill(
    at("resource"),
    board.resources.map((name) => h("option", { value: name, selected: name === view.resource }, name)),
  );
  at("resource").value = view.resource;
  at("attention").hidden = !board.attention;
  fill(at("attention"), board.attention ? drawAttention(view) : []);
  fill(at("figures"), drawFigures(view));
  at("table").hidden = !route.table;
  document.body.classList.toggle("tabled", Boolean(route.table));
  fill(at("table"), route.table ? drawTable(view) : []);
  at("tables").setAttribute("href", link({ ...route, table: "domains", tier: "", find: "", by: "" }));
  const innermost = !view.fabric.children[zoom].length;
  fill(at("fabric"), drawMap(view), innermost && view.nodes ? drawNodes(view) : null);
  oneStop(at("fabric"));
  drawer(view, opened);
  fill(at("waiting"), drawWaiting(view));
  fill(
    at("running"),
    folded(phone, "running", `Running ${thousands(String(view.board.jobs.running))}`, drawRunning(view)),
  );
  at("what").hidden = !view.asks;
  at("what").setAttribute("href", link({ ...route, asking: "1", at: history.whole ? route.at : "" }));
  at("whatif").hidden = !(route.asking || route.changes);
  fill(at("whatif"), at("whatif").hidden ? [] : drawWhatIf(view));
  if (inView !== route.asking + route.changes) {
    // what was asked for is in view, and a half-written change has the focus
    inView = route.asking + route.changes;
    if (inView) at("whatif").scrollIntoView({ block: "nearest" });
    const field = route.asking ? at("whatif").querySelector("input[name=text]") : null;
    field?.focus({ preventScroll: true });
    field?.setSelectionRange(field.value.length, field.value.length);
  }
  at("time").hidden = history.moments.length < 2 || Boolean(route.changes);
  if (!at("time").hidden) drawTimeline(at("time"), view);
  document.body.classList.toggle("past", Boolean(route.at) || history.recorded);
  at("services").hidden = !board.services;
  fill(at("services"), board.services ? folded(phone, "services", "Services", drawServices(view)) : []);
  const bare = !view.first.nodes(0); // a cluster without nodes has no slots
  at("slots").hidden = bare;
  fill(at("slots"), bare ? [] : folded(phone, "slots", "Free slots", drawSlots(view)));
  fill(at("queues"), folded(phone, "queues", "Queues", drawQueues(view)));
  fill(at("cycles"), folded(phone, "cycles", "Cycles", drawCycles(view)));
  at("problems").hidden = !board.problems.length;
  fill(at("problems"), board.problems.length ? drawProblems(view) : []);
  at("page").setAttribute("aria-busy", "false");
}

let inView = ""; // the question that was brought there
let before = "",
  opener = ""; // what the drawer showed, and the link that opened it first

/** The drawer beside the map: what was clicked is in view at every width, has the focus, and is announced. */
function drawer(view, opened) {
  const panel = at("drawer");
  const scrolled = opened && opened === before ? panel.scrollTop : 0; // asking makes the browser lay out the page
  panel.hidden = !opened;
  document.body.classList.toggle("opened", Boolean(opened));
  fill(panel, !opened ? [] : view.route.job ? drawJob(view) : drawNode(view));
  if (opened === before) {
    if (scrolled) panel.scrollTop = scrolled;
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
    /** @type {Any[]} */
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
    else if (route.fits) go({ ...route, fits: "" });
    else if (route.domain) go({ ...route, domain: "" });
  },
  time(by) {
    if (!answers || answers.history.moments.length < 2) return;
    if (by === 0) player.play();
    else player.by(by);
  },
  up() {
    const route = parse(location.hash);
    if (!answers) return;
    const { board } = answers;
    const zoom = zoomOf(board, route);
    const fabric = board.fabrics[treeOf(board, route)];
    const parent = zoom ? fabric.parent[zoom] : 0;
    if (zoom) go({ ...route, domain: parent > 0 ? fabric.name[parent] : "" });
  },
});
searchable(at("search"), at("hits"));
at("resource").addEventListener("change", (event) => {
  const chosen = event.target.value;
  go({ ...parse(location.hash), resource: chosen === answers?.board.resources[0] ? "" : chosen });
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
// The server tells when there is something new, while the page is in view. Where no stream can be had, the page asks
// every few seconds.
const news = new News({
  board() {
    if (!live()) question.about(parse(location.hash), true); // other files are another question
    refresh();
  },
  checked: ({ data }) => looked(data),
});
function hear() {
  if (document.visibilityState === "visible") news.hear(address("events", { run: parse(location.hash).run }));
}
const hush = () => news.hush();
document.addEventListener("visibilitychange", () => {
  if (document.visibilityState === "visible") {
    hear();
    refresh();
  } else hush();
});
window.addEventListener("pagehide", hush);
window.addEventListener("pageshow", hear);
setInterval(() => {
  if (document.visibilityState === "visible" && (!news.open || fault)) refresh();
}, PERIOD);
setInterval(tell, 1000);
refresh({ force: true });
