// The life of one job: created, waited, started, evicted for whom, started again; and whom it displaced.

import { h } from "./dom.js";
import { age, clock, many } from "./format.js";
import { link, toJob } from "./route.js";

/** Entries in order, each with the time since the one before; the address of a time leads to its moment. */
export function drawLife(view) {
  const { life, route, story } = view;
  const created = story?.line?.created ?? 0;
  const own = life?.entries ?? [];
  const first =
    created > 0 && !own.some((e) => e.kind === "created") ? [{ now: created, kind: "created", own: true }] : [];
  const entries = [...first, ...own].sort(
    (one, other) => one.now - other.now || Number(other.kind === "created") - Number(one.kind === "created"),
  );
  if (!own.length) return null;
  let started = false;
  return [
    h("h3", {}, "Its life"),
    h(
      "ol",
      { class: "life" },
      entries.map((entry, i) => {
        const again = entry.own && entry.kind === "started" && started;
        if (entry.own && entry.kind === "started") started = true;
        return h(
          "li",
          { class: entry.own ? entry.kind : "other" },
          entry.moment
            ? h("a", { class: "num", href: link({ ...route, at: String(entry.moment), during: "" }) }, clock(entry.now))
            : h("span", { class: "num soft" }, clock(entry.now)),
          i ? h("span", { class: "soft num" }, ` after ${age(entry.now - entries[i - 1].now) || "0 s"}`) : null,
          h("span", { class: "what" }, told(route, entry, again)),
        );
      }),
    ),
  ];
}

function told(route, entry, again) {
  const because = entry.text ? `: ${entry.text}` : "";
  const pods = entry.pods ? many(entry.pods, "pod") : "";
  switch (entry.kind) {
    case "created":
      return "created";
    case "waits":
      return `began to wait${because}`;
    case "reason":
      return `waits for another reason${because}`;
    case "started":
      return [
        h("b", { class: "good" }, again ? "started again" : "started"),
        pods ? `, ${pods}` : "",
        entry.text ? ` in ${entry.text}` : "",
      ];
    case "evicted":
      return lost(route, entry, pods || "it");
    case "shrunk":
      return `${pods} less`;
    default:
      return "ended, or was deleted";
  }
}

/** An eviction from either side: for whom it had to go, or who had to go for it. */
export function lost(route, entry, pods = many(entry.pods, "pod")) {
  const job = (other) => h("a", { href: toJob({ ...route, at: "", during: "" }, other.path) }, other.name);
  const why = entry.text?.replace(/^to make room for \S+: /, "") ?? ""; // for whom is told by name
  const by = entry.action ? ` by ${entry.action}` : "";
  if (entry.own)
    return [
      h("b", { class: "bad" }, `${pods} evicted`),
      by,
      entry.by ? [" for ", job(entry.by)] : "",
      why ? `: ${why}` : "",
    ];
  return [
    h("b", { class: "bad" }, `${pods} evicted`),
    " of ",
    job(entry),
    entry.own === false ? " for it" : entry.by ? [" for ", job(entry.by)] : "",
    by,
    why ? `: ${why}` : "",
  ];
}
