// Applications on the zones of the network: workloads drawn where they run, what each calls and what that costs as
// placed, and how full the links are. What goes further than it may comes first; tables tell the same as the drawing.

import { gauge, h, head, svg, table } from "./dom.js";
import { count, many } from "./format.js";
import { link, toJob } from "./route.js";

const CHIP = { width: 132, height: 24, gap: 10, lane: 40 }; // the lane is where lines run
const ZONE = { pad: 10, head: 22, gap: 8 };
const REGION = { pad: 8, head: 22, gap: 14 };
const DRAWN = 60; // workloads and zones beyond which an application is told by its table alone

export function drawServices(view) {
  const { services } = view.board;
  return [
    head(
      "Services",
      h(
        "span",
        { class: "soft" },
        services.network
          ? `costs of ${services.network}, ${services.weights}`
          : "there is no NetworkTopology: no cost is known",
      ),
      h(
        "span",
        { class: services.violated ? "bad" : "soft" },
        services.violated ? `${many(services.violated, "call")} further than allowed` : "every call within its limit",
      ),
    ),
    services.weighed
      ? null
      : h(
          "p",
          { class: "note warn" },
          "The profile has no NetworkOverhead, so nothing places services by these costs.",
        ),
    services.groups.map((group) =>
      h(
        "details",
        { "data-key": `app-${group.name}`, open: group.violated || services.groups.length < 3 },
        h(
          "summary",
          {},
          h("b", {}, group.name),
          h(
            "span",
            { class: "soft" },
            ` ${many(group.workloads.length, "workload")}, ${many(group.count, "call")}, cost ${count(group.cost)}`,
          ),
          group.violated ? h("span", { class: "chip bad" }, `${count(group.violated)} violated`) : null,
        ),
        group.workloads.length + services.zones.length <= DRAWN ? drawing(view, group) : null,
        group.violated ? calls(view, group, (call) => call.violated) : null,
        h(
          "details",
          { "data-key": `calls-${group.name}` },
          h("summary", {}, `${many(group.count, "call")} as a table`),
          calls(view, group),
        ),
      ),
    ),
    services.count > services.groups.length
      ? h("p", { class: "soft" }, `and ${many(services.count - services.groups.length, "other application")}`)
      : null,
    services.links.length ? links(services) : null,
  ];
}

const zoneName = ({ region, zone }) => zone || region || "no zone";

/** What a workload is called: by its job where it has one job alone. */
function called(workload) {
  const job = workload.jobs.length === 1 ? workload.jobs[0].split("/").pop() : "";
  return job || workload.name;
}

function target(view, workload) {
  return workload.jobs.length === 1
    ? toJob(view.route, workload.jobs[0])
    : link({ ...view.route, filter: workload.name });
}

/** The calls of an application, or those of one workload, as a table. */
export const callsOf = (view, group, workload) =>
  calls(view, group, (call) => call.caller === workload || call.callee === workload, workload);

function calls(view, group, wanted = (/** @type {Any} */ _call) => true, workload = "") {
  const { zones } = view.board.services;
  const names = new Map(group.workloads.map((workload) => [workload.name, workload]));
  const end = (name) => h("a", { href: target(view, names.get(name)) }, called(names.get(name)));
  const found = group.calls.filter(wanted);
  const way = ({ origin, destination, pairs, state }) =>
    h(
      "div",
      { class: state === "violated" ? "bad" : "" },
      origin === destination
        ? `within ${zoneName(zones[origin])}`
        : `${zoneName(zones[origin])} → ${zoneName(zones[destination])}`,
      pairs > 1 ? ` ×${count(pairs)}` : "",
      state === "unknown" ? " (cost unknown)" : "",
    );
  const state = (call) =>
    call.violated
      ? h("span", { class: "chip bad" }, "too far")
      : call.ways.length
        ? h("span", { class: "chip good" }, "kept")
        : h("span", { class: "soft" }, "not placed");
  return found.length
    ? table(
        [
          ["caller", (call) => end(call.caller), "long"],
          ["calls", (call) => end(call.callee), "long"],
          ["from where to where", (call) => (call.ways.length ? call.ways.slice(0, 6).map(way) : "–"), "grow"],
          ["cost", (call) => (call.ways.length ? count(call.cost) : "–"), "num"],
          ["at most", (call) => count(call.max_cost), "num"],
          ...(workload ? [] : [["bandwidth", (call) => (call.bandwidth ? bits(call.bandwidth) : "–"), "num"]]),
          ["limit", state],
        ],
        found,
        { "aria-label": `Calls of ${workload || group.name}` },
      )
    : h("p", { class: "soft" }, "There are none.");
}

/** Bandwidth in bits per second, as manifests write it. */
function bits(amount) {
  const [value, unit] =
    amount >= 1e9
      ? [amount / 1e9, "G"]
      : amount >= 1e6
        ? [amount / 1e6, "M"]
        : amount >= 1e3
          ? [amount / 1e3, "k"]
          : [amount, ""];
  return `${Number.isInteger(value) ? value : value.toFixed(1)}${unit}`;
}

function links({ links: found, overloaded }) {
  return [
    h("h3", {}, "Links", overloaded ? h("span", { class: "chip bad" }, `${count(overloaded)} overloaded`) : null),
    table(
      [
        ["link", (l) => `${l.origin} → ${l.destination}`, "long"],
        ["between", (l) => (l.regional ? "regions" : "zones")],
        ["cost", (l) => (l.cost === null ? "unknown" : count(l.cost)), "num"],
        ["reserved", (l) => h("span", { class: l.over ? "bad" : "" }, l.used ? bits(l.used) : "0"), "num"],
        ["(share)", (l) => (l.capacity === null ? null : gauge(l.used, l.capacity)), "grow"],
        ["carries", (l) => (l.capacity === null ? "no limit" : bits(l.capacity)), "num"],
      ],
      found,
      { "aria-label": "Links" },
    ),
  ];
}

// -- the drawing

/** Regions, zones in them, workloads in these, and a line for every call between zones or within one. */
function drawing(view, group) {
  const { zones } = view.board.services;
  const places = arranged(zones, group, view.width);
  const waiting = group.workloads.filter((workload) => !workload.zones.length);
  const lines = group.calls.flatMap((call) => call.ways.map((way) => [call, way]));
  const order = { kept: 0, unknown: 1, violated: 2 }; // what is wrong is drawn on top
  lines.sort(([, one], [, other]) => order[one.state] - order[other.state]);
  return [
    h(
      "div",
      { class: "services" },
      svg(
        "svg",
        {
          viewBox: `0 0 ${places.width} ${places.height}`,
          width: places.width,
          height: places.height,
          role: "group",
          "aria-label": `${group.name} on its zones`,
        },
        svg(
          "defs",
          {},
          ["kept", "unknown", "violated"].map((state) =>
            svg(
              "marker",
              {
                id: `tip-${state}`,
                class: `tip ${state}`,
                viewBox: "0 0 8 8",
                refX: 7,
                refY: 4,
                markerWidth: 7,
                markerHeight: 7,
                orient: "auto-start-reverse",
              },
              svg("path", { d: "M0 0L8 4L0 8Z" }),
            ),
          ),
        ),
        places.boxes.map(({ x, y, width, height, title, kind }) => [
          svg("rect", { x, y, width, height, rx: kind === "region" ? 10 : 7, class: kind }),
          svg("text", { x: x + 9, y: y + 15, class: `${kind}-name` }, svg("title", {}, title), cut(title, width - 14)),
        ]),
        lines.map(([call, way]) => line(places, call, way)),
        group.workloads.flatMap((workload) =>
          workload.zones.map(([spot, pods]) =>
            chip(view, group, workload, pods, places.chips.get(`${spot} ${workload.name}`)),
          ),
        ),
      ),
    ),
    places.empty.length ? h("p", { class: "soft" }, `Nothing of it in ${places.empty.join(", ")}.`) : null,
    waiting.length
      ? h(
          "p",
          { class: "soft" },
          "Without a place: ",
          waiting.map((workload, i) => [i ? ", " : "", h("a", { href: target(view, workload) }, called(workload))]),
        )
      : null,
  ];
}

/** How many calls lead to a workload at most, so that callers stand left of what they call. */
function levelsOf(group) {
  const levels = new Map(group.workloads.map(({ name }) => [name, 0]));
  for (let round = 0; round < group.workloads.length; round += 1) {
    // calls in a circle end after so many rounds
    let moved = false;
    for (const { caller, callee } of group.calls) {
      if (levels.get(callee) <= levels.get(caller) && levels.get(caller) + 1 < group.workloads.length) {
        levels.set(callee, levels.get(caller) + 1);
        moved = true;
      }
    }
    if (!moved) break;
  }
  return levels;
}

/** Where boxes and chips stand: regions and zones from left to right as far as they fit, in each zone a column for each
 * level of calls. Zones without a workload are not drawn. */
function arranged(zones, group, width) {
  const levels = levelsOf(group);
  const most = Math.max(
    1,
    Math.floor((width - 2 * (ZONE.pad + REGION.pad) - 16 + CHIP.lane) / (CHIP.width + CHIP.lane)),
  );
  /** @type {Any} */
  const places = { boxes: [], chips: new Map(), width, height: 0, empty: [] };
  const regions = new Map();
  zones.forEach((place, spot) => {
    const inside = group.workloads.filter((workload) => workload.zones.some(([at]) => at === spot));
    if (!inside.length) {
      places.empty.push(zoneName(place));
      return;
    }
    const byLevel = Map.groupBy ? Map.groupBy(inside, ({ name }) => levels.get(name)) : new Map([[0, inside]]);
    const stacks = [...byLevel].sort(([one], [other]) => one - other).map(([, found]) => found);
    while (stacks.length > most) stacks.push(stacks.splice(-2).flat());
    const box = {
      spot,
      place,
      stacks,
      width: stacks.length * (CHIP.width + CHIP.lane) - CHIP.lane + 2 * ZONE.pad + 16,
      height: ZONE.head + ZONE.pad + Math.max(...stacks.map((found) => found.length)) * (CHIP.height + CHIP.gap),
    };
    regions.set(place.region, [...(regions.get(place.region) ?? []), box]);
  });
  let x = 0,
    y = 0,
    lowest = 0;
  for (const [region, boxes] of regions) {
    const whole = boxes.reduce((sum, box) => sum + box.width + ZONE.gap, -ZONE.gap) + 2 * REGION.pad;
    if (x && x + whole > width) {
      x = 0;
      y = lowest + REGION.gap;
    }
    let [left, top, row, right] = [x + REGION.pad, y + REGION.head, 0, x];
    for (const box of boxes) {
      if (left > x + REGION.pad && left + box.width + REGION.pad > width) {
        left = x + REGION.pad;
        top += row + ZONE.gap;
        row = 0;
      }
      zone(places, box, left, top);
      left += box.width + ZONE.gap;
      right = Math.max(right, left - ZONE.gap + REGION.pad);
      row = Math.max(row, box.height);
    }
    const bottom = top + row + REGION.pad;
    places.boxes.unshift({
      kind: "region",
      title: region || "no region",
      x: x + 1,
      y: y + 1,
      width: right - x - 2,
      height: bottom - y - 2,
    });
    lowest = Math.max(lowest, bottom);
    x = right + REGION.gap;
  }
  places.height = lowest + 1;
  return places;
}

function zone(places, { spot, place, stacks, width, height }, x, y) {
  places.boxes.push({
    kind: "zone",
    title: `${place.zone || "no zone"} · ${many(place.nodes, "node")}`,
    x,
    y,
    width,
    height,
  });
  const tallest = Math.max(...stacks.map((found) => found.length));
  stacks.forEach((found, column) =>
    found.forEach((workload, i) =>
      places.chips.set(`${spot} ${workload.name}`, {
        x: x + ZONE.pad + column * (CHIP.width + CHIP.lane),
        y: y + ZONE.head + 4 + (i + (tallest - found.length) / 2) * (CHIP.height + CHIP.gap),
      }),
    ),
  );
}

/** A text that fits a width, more or less. */
function cut(text, width) {
  const most = Math.floor(width / 6.8);
  return text.length > most ? `${text.slice(0, most - 1)}…` : text;
}

function chip(view, group, workload, pods, { x, y }) {
  const text = called(workload) + (pods > 1 ? ` ×${pods}` : "");
  const wrong = group.calls.some(
    (call) => call.violated && (call.caller === workload.name || call.callee === workload.name),
  );
  const calling = group.calls
    .filter((call) => call.caller === workload.name)
    .map(
      (call) =>
        `${call.callee} at ${call.ways.length ? count(call.cost) : "no"} cost${call.violated ? ", too far" : ""}`,
    );
  const label = `${text}, ${many(pods, "pod")}${calling.length ? `; calls ${calling.join("; ")}` : "; calls nobody"}`;
  return svg(
    "a",
    { href: target(view, workload), class: `workload${wrong ? " wrong" : ""}`, "aria-label": label },
    svg("title", {}, label),
    svg("rect", { x, y, width: CHIP.width, height: CHIP.height, rx: 6 }),
    svg("text", { x: x + 8, y: y + 16 }, cut(text, CHIP.width - 12)),
  );
}

/** A call from one chip to another: from side to side, or in a bow where they stand above each other. */
function line(places, call, way) {
  const from = places.chips.get(`${way.origin} ${call.caller}`),
    to = places.chips.get(`${way.destination} ${call.callee}`);
  if (!from || !to || from === to) return null;
  const [middleFrom, middleTo] = [from.y + CHIP.height / 2, to.y + CHIP.height / 2];
  const beside = Math.abs(to.x - from.x) > CHIP.width / 2;
  const right = to.x > from.x || !beside;
  const start = right ? from.x + CHIP.width : from.x,
    end = beside ? (right ? to.x : to.x + CHIP.width) : to.x + CHIP.width;
  const bow = beside ? Math.max(24, Math.abs(end - start) / 2) : 10 + Math.min(26, Math.abs(to.y - from.y) / 6);
  const [one, other] = beside ? [start + (right ? bow : -bow), end - (right ? bow : -bow)] : [start + bow, end + bow];
  const text = way.origin !== way.destination || way.state === "violated";
  const at = { x: (start + 3 * one + 3 * other + end) / 8, y: (middleFrom + middleTo) / 2 - 3 };
  return svg(
    "g",
    { class: `call ${way.state}` },
    svg(
      "title",
      {},
      `${call.caller} calls ${call.callee}: cost ${count(way.cost)}, at most ${count(call.max_cost)} for each pair`,
    ),
    svg("path", {
      d: `M${start} ${middleFrom}C${one} ${middleFrom} ${other} ${middleTo} ${end} ${middleTo}`,
      "marker-end": `url(#tip-${way.state})`,
    }),
    text ? svg("text", at, count(way.cost)) : null,
  );
}
