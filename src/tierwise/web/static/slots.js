// Free slots: how many gangs of which size still fit inside one domain of each tier, where, and how domains are filled.

import { gauge, h, head, name, table } from "./dom.js";
import { shapeOf } from "./fits.js";
import { count, percent, unit } from "./format.js";
import { link, toDomain } from "./route.js";

const FILLING = ["full", "partly", "mostly free", "free"];
const NAMED = 2; // domains that are named in a cell

export function drawSlots(view) {
  const { board, fabric, tree, route } = view;
  const slots = board.slots[tree];
  const shown = slots.tiers.filter((slot) => slot.most); // sizes that would not fit an empty cluster say nothing
  const sizes = [...new Set(shown.map((slot) => slot.size))];
  const tiers = [...new Set(slots.tiers.map((slot) => slot.tier))];
  const root = Math.max(...tiers);
  const find = (tier, size) => shown.find((slot) => slot.tier === tier && slot.size === size);
  const title = (tier) =>
    tier === root ? "cluster" : `${tier}${fabric.tierNames.get(tier) ? ` ${fabric.tierNames.get(tier)}` : ""}`;
  const told = (slot) => `${count(slot.gangs)} of ${count(slot.most)}`;
  const light = (slot) =>
    link({
      ...route,
      resource: "",
      fits: shapeOf({ fabric, resource: slots.resource }, slot.size, slot.tier === root ? null : slot.tier),
    });
  const where = (slot) =>
    slot.gangs && slot.tier !== root
      ? h(
          "div",
          { class: "soft" },
          slot.roomiest
            .slice(0, NAMED)
            .map(([found], i) => [i ? ", " : "", h("a", { href: toDomain(route, found) }, name(found))]),
          slot.roomiest.length > NAMED ? " …" : "",
        )
      : null;
  const cell = (slot) =>
    slot
      ? [
          slot.gangs
            ? h("a", { href: light(slot), title: "Show in the map which domains take such a gang" }, told(slot))
            : h("span", { class: "bad" }, told(slot)),
          gauge(slot.gangs, slot.most),
          where(slot),
          slot.free && slot.fragmentation >= 0.005
            ? h(
                "div",
                { class: "soft", title: "share of the free slots that such gangs cannot use" },
                `${percent(slot.fragmentation)} unusable`,
              )
            : null,
        ]
      : "–";
  const filling = (tier) =>
    slots.filling[tier]
      .map((number, i) => (number ? `${count(number)} ${FILLING[i]}` : ""))
      .filter(Boolean)
      .join(", ");
  return [
    head(
      "Free slots",
      h(
        "span",
        { class: "soft" },
        board.fabrics.length > 1 ? `${fabric.columns.title}: ` : "",
        `gangs that fit inside one domain now, of those that would in an empty cluster, in ${unit(slots.resource)}`,
      ),
    ),
    table(
      [
        ["tier", title, "num left"],
        ...sizes.map((size) => [`${size} ${unit(slots.resource)}`, (tier) => cell(find(tier, size)), "num"]),
        ["domains", filling, "grow"],
      ],
      tiers,
      { "aria-label": "Free slots by tier" },
    ),
  ];
}
