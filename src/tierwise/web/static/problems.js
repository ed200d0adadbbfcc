// What is wrong with the declarations: each with a link to its place in the map, where it has one.

import { h, head, table } from "./dom.js";
import { many } from "./format.js";
import { toDomain, toNode } from "./route.js";

export function drawProblems({ board, route }) {
  const place = (problem) => {
    const [kind, name = kind] = problem.object.split(" ", 2);
    const tree = board.fabrics.findIndex((fabric) => fabric.name.includes(name));
    if (tree >= 0)
      return h(
        "a",
        { href: toDomain({ ...route, fabric: tree ? board.fabrics[tree].title : "" }, name) },
        problem.object,
      );
    return kind === "Node" ? h("a", { href: toNode(route, name) }, problem.object) : problem.object;
  };
  return [
    head("Problems", h("span", { class: "soft" }, many(board.problems.length, "problem"))),
    table(
      [
        ["object", place, "long"],
        ["code", (p) => h("span", { class: p.severity === "error" ? "bad" : "warn" }, p.code)],
        ["what is wrong", (p) => p.message, "grow"],
      ],
      board.problems,
    ),
  ];
}
