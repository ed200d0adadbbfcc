// Where there is nearly room for a job, and whose leaving would make it: by counting, so that it is told at once.

import { h, name } from "./dom.js";
import { toHyperNode } from "./route.js";

/** Domains that take the most of it, and those where the fewest pods of lower priority would have to go. */
export function drawNear({ route }, { near = [], victims = [] }) {
  return [lines(route, "Nearest now, by counting", near), lines(route, "Fewest to evict, by counting", victims)];
}

function lines(route, title, found) {
  if (!found.length) return null;
  return [
    h("h3", {}, title),
    h(
      "ul",
      { class: "near", "aria-label": title },
      found.map((one) => {
        const [before, after] = split(one.text, one.name);
        return h(
          "li",
          { "data-key": one.name },
          before,
          h("a", { href: toHyperNode(route, one.name === "<cluster-top-hypernode>" ? "" : one.name) }, name(one.name)),
          after,
        );
      }),
    ),
  ];
}

/** What stands before and after the name in a sentence. */
function split(text, word) {
  const at = text.indexOf(word);
  return at < 0 ? [text, ""] : [text.slice(0, at), text.slice(at + word.length)];
}
