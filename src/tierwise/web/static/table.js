// Tables of jobs, nodes, domains and queues: the server selects and sorts, the address has it all, and a file takes it
// along.

import { address } from "./addresses.js";
import { gauge, h, head, name } from "./dom.js";
import { age, count, percent, unit } from "./format.js";
import { link, toHyperNode, toJob, toNode } from "./route.js";

const TABLES = ["jobs", "nodes", "domains", "queues"];
const FIRST = 100; // rows that come at first

/** What the server is asked for; nothing where no table is open. */
export function tableAsked(route, more) {
  if (!TABLES.includes(route.table)) return null;
  /** @type {Record<string, string>} */
  const asked = { limit: String(FIRST + more) };
  if (route.find) asked.q = route.find;
  if (route.by) asked.sort = route.by;
  if (route.resource) asked.resource = route.resource;
  if (route.tier) asked.tier = route.tier;
  return asked;
}

/** The links to the tables. */
export function tabs(route) {
  return h(
    "nav",
    { class: "tabs", "aria-label": "Tables" },
    TABLES.map((table) =>
      h(
        "a",
        {
          class: `facet${route.table === table ? " chosen" : ""}`,
          "aria-current": route.table === table ? "page" : null,
          href: link({ ...route, table: route.table === table ? "" : table, find: "", by: "", tier: "" }),
        },
        table,
      ),
    ),
  );
}

export function drawTable(view) {
  const { route, table: found, resource, first } = view;
  if (!found)
    return [
      head("Tables", tabs(route)),
      h("p", { class: "soft" }, "Of past moments the map and the lists are kept, and no tables."),
    ];
  const go = (event) => {
    event.preventDefault();
    location.hash = link({ ...route, find: event.currentTarget.elements.find.value.trim() });
  };
  const asked = { ...tableAsked(route, 0) };
  delete asked.limit;
  const file = address("", route, asked).replace("/api/", `/csv/${route.table}.csv`);
  return [
    head(
      `${route.table[0].toUpperCase()}${route.table.slice(1)}`,
      h("span", { class: "soft" }, `${count(found.count)} of ${count(found.of)}`),
      tabs(route),
      h("a", { class: "button", href: link({ ...route, table: "", find: "", by: "", tier: "" }) }, "✕ close"),
    ),
    h(
      "form",
      { class: "ask", "data-key": `find-${route.table}`, on: { submit: go } },
      h("label", { for: "find" }, "Only rows with"),
      h("input", {
        id: "find",
        name: "find",
        "data-begun": `${route.table} ${route.find}`,
        value: route.find,
        placeholder: "words, free>8 or state=cordoned",
        autocomplete: "off",
      }),
      h("button", {}, "Show"),
      route.table === "domains" ? tiers(route, first) : null,
      h("a", { class: "button", href: file, download: `${route.table}.csv` }, "CSV"),
    ),
    found.fault ? h("p", { class: "note warn", role: "alert" }, found.fault) : grid(view, found, resource),
  ];
}

function tiers(route, first) {
  const choose = (event) => {
    location.hash = link({ ...route, tier: event.target.value });
  };
  return h(
    "label",
    { class: "pick" },
    "Tier ",
    h(
      "select",
      { "aria-label": "Tier of the domains", on: { change: choose } },
      h("option", { value: "", selected: !route.tier }, "all"),
      first.columns.tiers.map(({ tier, name: title }) =>
        h("option", { value: String(tier), selected: route.tier === String(tier) }, title || `tier ${tier}`),
      ),
    ),
  );
}

function grid(view, { columns, rows, sort, count: every }, resource) {
  const { route } = view;
  const sorted = sort.split(",")[0];
  const title = (column) => {
    const falls = sorted === `-${column.name}`;
    const rises = sorted === column.name;
    const numeric = !["text", "job", "node", "domain", "queue"].includes(column.kind);
    const next = falls ? column.name : rises || numeric ? `-${column.name}` : column.name;
    return h(
      "th",
      { scope: "col", class: numeric ? "num" : null, "aria-sort": falls ? "descending" : rises ? "ascending" : null },
      h("a", { href: link({ ...route, by: next }) }, titled(column, resource), falls ? " ↓" : rises ? " ↑" : ""),
    );
  };
  return [
    h(
      "div",
      { class: "scroll", tabindex: "0", role: "region", "aria-label": `Table of ${route.table}` },
      h(
        "table",
        { class: "grid" },
        h("thead", {}, h("tr", {}, columns.map(title))),
        h(
          "tbody",
          {},
          rows.map((row) =>
            h(
              "tr",
              { "data-key": String(row[0]) },
              columns.map((column, i) =>
                h(
                  "td",
                  {
                    class: ["text", "job", "node", "domain", "queue"].includes(column.kind) ? null : "num",
                    "data-title": titled(column, resource),
                  },
                  cell(route, column.kind, row[i]),
                ),
              ),
            ),
          ),
        ),
      ),
    ),
    every > rows.length
      ? h(
          "button",
          { class: "more", "data-key": "more-rows", on: { click: () => view.showMore("rows") } },
          `Show more of ${count(every)}`,
        )
      : null,
  ];
}

const titled = (column, resource) => (column.kind === "amount" ? `${column.title}, ${unit(resource)}` : column.title);

function cell(route, kind, value) {
  if (value === null || value === "") return "–";
  if (kind === "job") return h("a", { href: toJob(route, value) }, name(value));
  if (kind === "node") return h("a", { href: toNode(route, value) }, name(value));
  if (kind === "domain") return h("a", { href: toHyperNode({ ...route, table: "" }, value) }, name(value));
  if (kind === "queue") return h("a", { href: link({ ...route, table: "", queue: value }) }, name(value));
  if (kind === "share") return [gauge(value, 1), ` ${percent(value)}`];
  if (kind === "age") return age(value);
  if (kind === "number" || kind === "amount" || kind === "hours") return count(value);
  return value;
}
