// What deserves attention, first on the page: by kind, each line with a link to its story.

import { h, head, name } from "./dom.js";
import { count, many } from "./format.js";
import { link, toHyperNode, toJob } from "./route.js";

const SHOWN = 3; // lines of a kind that are told at once

export function drawAttention({ board, route }) {
  const { concerns, counts, titles } = board.attention;
  const number = Object.values(counts).reduce((sum, of) => sum + of, 0);
  if (!number) return head("Attention", h("span", { class: "soft" }, "nothing deserves attention"));
  const kinds = Object.keys(counts).filter((code) => counts[code]);
  return [
    head("Attention", h("span", { class: "soft" }, many(number, "thing"))),
    h(
      "ul",
      { class: "concerns" },
      kinds.map((code) => {
        const of = concerns.filter((concern) => concern.code === code);
        const rest = of.slice(SHOWN);
        const beyond = counts[code] - of.length;
        return h(
          "li",
          { "data-key": code },
          h("h3", {}, titles[code], " ", h("span", { class: "num" }, count(counts[code]))),
          h(
            "ul",
            {},
            of.slice(0, SHOWN).map((concern) => line(route, concern)),
          ),
          rest.length
            ? h(
                "details",
                { "data-key": `more-${code}` },
                h("summary", { class: "soft" }, `${count(counts[code] - SHOWN)} more`),
                h(
                  "ul",
                  {},
                  rest.map((concern) => line(route, concern)),
                ),
                beyond ? h("p", { class: "soft" }, `and ${count(beyond)} that are told by the command`) : null,
              )
            : null,
        );
      }),
    ),
  ];
}

function line(route, concern) {
  const target = targets[concern.kind]?.(route, concern.name);
  const title = name(concern.name);
  return h("li", { "data-key": concern.name }, target ? h("a", { href: target }, title) : title, ` ${concern.text}`);
}

const targets = {
  Job: (route, job) => toJob(route, job),
  Queue: (route, queue) => link({ ...route, queue }),
  HyperNode: (route, domain) => toHyperNode(route, domain),
  Namespace: (route, namespace) => link({ ...route, filter: `${namespace}/` }),
};
