// The figures at the top: where every unit of the resource is, what waits, what runs, what was evicted, what is wrong.

import { h, verdict } from "./dom.js";
import { count, many, percent, short } from "./format.js";
import { link } from "./route.js";

/** The parts of a resource, in the order of the bar: [field, title, what it means]. */
const PARTS = [
  ["gangs", "gangs", "held by pods of gangs"],
  ["single", "single pods", "held by pods that are no gang's"],
  ["others", "other pods", "held by pods of other schedulers, and by pods that no job counts"],
  ["reserved", "reserved", "kept for gangs until resources are released"],
  ["spares", "spares", "kept free for gangs that run and may lose nodes"],
  ["reservations", "promised", "free now, in the place that a gang which waits has a reservation for"],
  ["broken", "out of service", "on nodes that are cordoned or not ready"],
  ["fragmented", "fragmented", "free, but too little in one place for any gang that waits"],
  ["free", "free", "free"],
];

export function drawFigures({ board, first: fabric, resource, route }) {
  const { jobs, cycles, problems } = board;
  const evicted = cycles.reduce((sum, cycle) => sum + cycle.evicted, 0);
  const shut = fabric.shut(0),
    over = fabric.over(0);
  const errors = problems.filter((problem) => problem.severity === "error").length;
  return [
    drawAccount(board.account[resource], resource, route),
    figure(
      "Waiting",
      count(jobs.waiting),
      [
        many(jobs.podsWaiting, "pod"),
        Object.entries(jobs.verdicts).map(([word, number]) =>
          h("span", { class: "num" }, verdict(word), ` ${count(number)}`),
        ),
      ],
      "#waiting",
      jobs.waiting ? "warn" : "",
    ),
    figure("Running", count(jobs.running), many(jobs.podsRunning, "pod"), "#running"),
    figure(
      "Evicted",
      count(evicted),
      board.mode === "recording"
        ? "pods at this moment"
        : evicted
          ? "in the cycles below"
          : "no pod in the cycles below",
      "#cycles",
      evicted ? "bad" : "",
    ),
    figure(
      "Nodes",
      count(fabric.nodes(0)),
      [
        shut
          ? h("span", { class: "warn" }, `${count(shut)} take no pods`)
          : fabric.nodes(0)
            ? "all take pods"
            : "none yet",
        over ? h("span", { class: "warn" }, `${count(over)} overcommitted`) : null,
      ],
      "#fabric",
    ),
    board.services?.violated || board.services?.overloaded
      ? figure(
          "Services",
          count(board.services.violated + board.services.overloaded),
          [
            board.services.violated ? h("span", {}, `${many(board.services.violated, "call")} too far`) : null,
            board.services.overloaded
              ? h("span", {}, many(board.services.overloaded, "link overloaded", "links overloaded"))
              : null,
          ],
          "#services",
          "bad",
        )
      : null,
    problems.length
      ? figure(
          "Problems",
          count(problems.length),
          errors ? many(errors, "error") : "warnings",
          "#problems",
          errors ? "bad" : "warn",
        )
      : null,
  ];
}

function drawAccount(account, resource, route) {
  const { total } = account;
  const used = account.gangs + account.single + account.others;
  const shown = PARTS.filter(([field]) => account[field] > 0);
  return h(
    "div",
    { class: "figure wide", role: "group", "aria-label": `Where every ${resource} is` },
    h("span", { class: "soft" }, `${resource} in use`),
    h(
      "b",
      {},
      short(resource, used),
      h("small", {}, ` of ${short(resource, total)}, ${total ? percent(used / total) : "0%"}`),
      account.over ? h("small", { class: "bad" }, ` · ${short(resource, account.over)} more than there is`) : null,
    ),
    h(
      "div",
      { class: "stack", "aria-hidden": "true" },
      shown.map(([field]) => h("i", { class: `part-${field}`, vars: { w: account[field] / Math.max(1, total) } })),
    ),
    h(
      "ul",
      { class: "parts" },
      shown.map(([field, title, meaning]) =>
        h(
          "li",
          { title: meaning },
          h("span", { class: `swatch part-${field}`, "aria-hidden": "true" }),
          field === "fragmented"
            ? h(
                "a",
                {
                  href: link({ ...route, show: route.show ? "" : "fragmented" }),
                  "aria-current": route.show ? "true" : null,
                },
                `${short(resource, account[field])} ${title}`,
              )
            : `${short(resource, account[field])} ${title}`,
        ),
      ),
    ),
  );
}

function figure(title, number, beside, target, kind = "") {
  const jump = (event) => {
    // these are places on the page, not routes
    event.preventDefault();
    const place = document.querySelector(target);
    place.scrollIntoView({ behavior: "smooth" });
    place.focus({ preventScroll: true });
  };
  return h(
    "a",
    { class: "figure", "data-key": `figure-${title}`, href: target, on: { click: jump } },
    h("span", { class: "soft" }, title),
    h("b", {}, h("span", { class: kind }, number), " ", h("small", { class: "beside" }, beside)),
  );
}
