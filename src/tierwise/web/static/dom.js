// Elements from data. Whatever comes from a cluster becomes a text node or the value of a harmless attribute, never
// markup: a job may be called anything.

/** An element; `props` are attributes, except class, on (listeners) and vars (custom properties of its style). */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "on") for (const [event, act] of Object.entries(value)) element.addEventListener(event, act);
    else if (name === "vars") for (const [key, amount] of Object.entries(value)) element.style.setProperty(`--${key}`, amount);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false));
  return element;
}

/** Replace what an element holds; the focus stays on what has the same key or link, and open details stay open. */
export function fill(element, ...children) {
  const focused = element.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  const open = new Map([...element.querySelectorAll("details[data-key]")].map((d) => [d.dataset.key, d.open]));
  element.replaceChildren(...children.flat(Infinity).filter(Boolean));
  for (const details of element.querySelectorAll("details[data-key]")) {
    if (open.has(details.dataset.key)) details.open = open.get(details.dataset.key);
  }
  if (focused !== null) {
    const same = [...element.querySelectorAll("a, button, summary")].find((found) => keyOf(found) === focused);
    same?.focus({ preventScroll: true });
  }
}

function keyOf(element) {
  return element.closest("[data-key]")?.dataset.key ?? element.getAttribute("href");
}

/** A heading with what stands beside it. */
export function head(title, ...beside) {
  return h("div", { class: "head" }, h("h2", {}, title), ...beside);
}

const VERDICTS = { never: "bad", "not-now": "warn", "not-allowed": "soft" };

/** The verdict on a job that waits, as a chip: never, not now, or not allowed. */
export function verdict(word) {
  return word ? h("span", { class: `chip ${VERDICTS[word] || "warn"}` }, word.replace("-", " ")) : null;
}

/** A table; a column is [title, cell, class]. */
export function table(columns, rows, props = {}) {
  const kind = (column) => ({ class: column[2] });
  return h("div", { class: "scroll" }, h("table", props,
    h("thead", {}, h("tr", {}, columns.map((c) => h("th", { ...kind(c), scope: "col" }, c[0])))),
    h("tbody", {}, rows.map((row) => h("tr", {}, columns.map((c) => h("td", kind(c), c[1](row))))))));
}

/** A bar: `used` of `total`, of which `fresh` is new, with a mark where one is given. The text beside it says the same. */
export function gauge(used, total, fresh = 0, mark = null) {
  const part = (amount) => (total > 0 ? Math.min(1, Math.max(0, amount / total)) : 0);
  const marked = mark !== null && total > 0;
  return h("span", { class: `gauge${marked ? " marked" : ""}${used > total ? " over" : ""}`, "aria-hidden": "true",
    vars: { u: part(used), b: part(used - fresh), m: marked ? part(mark) : 0 } },
  h("i"), h("i"), marked ? h("u") : null);
}
