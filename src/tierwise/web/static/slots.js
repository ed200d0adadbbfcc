// Free slots: how many gangs of which size still fit inside one domain of each tier, and how domains are filled.

import { gauge, h, head, table } from "./dom.js";
import { count, percent, unit } from "./format.js";

const FILLING = ["full", "partly", "mostly free", "free"];

export function drawSlots({ board, fabric, tree }) {
  const slots = board.slots[tree];
  const sizes = [...new Set(slots.tiers.map((slot) => slot.size))];
  const tiers = [...new Set(slots.tiers.map((slot) => slot.tier))];
  const root = Math.max(...tiers);
  const find = (tier, size) => slots.tiers.find((slot) => slot.tier === tier && slot.size === size);
  const name = (tier) =>
    tier === root ? "cluster" : `${tier}${fabric.tierNames.get(tier) ? ` ${fabric.tierNames.get(tier)}` : ""}`;
  const cell = (slot) =>
    slot.most
      ? [
          h("span", { class: slot.gangs ? "" : "bad" }, `${count(slot.gangs)} of ${count(slot.most)}`),
          slot.free && slot.fragmentation >= 0.005
            ? h(
                "div",
                { class: "soft", title: "share of the free slots that such gangs cannot use" },
                `${percent(slot.fragmentation)} unusable`,
              )
            : null,
          gauge(slot.gangs, slot.most),
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
        `gangs that fit inside one domain now, of those that would in an empty cluster`,
      ),
    ),
    table(
      [
        ["tier", name, "num left"],
        ...sizes.map((size) => [`${size} ${unit(slots.resource)}`, (tier) => cell(find(tier, size)), "num"]),
        ["domains", filling, "grow"],
      ],
      tiers,
    ),
  ];
}
