// Elements from data. Whatever comes from a cluster becomes a text node or the value of a harmless attribute, never
// markup: a job may be called anything.

/** An element; `props` are attributes, except class, on (listeners) and vars (custom properties of its style). */
export function h(tag, props = {}, ...children) {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(props)) {
    if (value === null || value === undefined || value === false) continue;
    if (name === "class") element.className = value;
    else if (name === "on") wire(element, value);
    else if (name === "vars") paint(element, value);
    else element.setAttribute(name, value === true ? "" : value);
  }
  element.append(...flat(children).flatMap(tag === "option" || tag === "bdi" ? (child) => [child] : isolated));
  return element;
}

// Letters that run from right to left, and marks that turn what follows them around.
const TURNS = /[\u0590-\u08ff\u200e\u200f\u202a-\u202e\u2066-\u2069\ufb1d-\ufdff\ufe70-\ufefc]/;

/** A text whose words keep to themselves: in a sentence, too, a name may be written in any letters. */
function isolated(text) {
  if (typeof text !== "string" || !TURNS.test(text)) return [text];
  return text.split(/(\s+)/).map((word) => (TURNS.test(word) ? h("bdi", {}, word) : word));
}

/** An element of a drawing. */
export function svg(tag, props = {}, ...children) {
  const element = document.createElementNS("http://www.w3.org/2000/svg", tag);
  for (const [name, value] of Object.entries(props))
    if (value !== null && value !== undefined) element.setAttribute(name, value);
  element.append(...flat(children));
  return element;
}

function flat(children) {
  return children.flat(Infinity).filter((child) => child !== null && child !== undefined && child !== false);
}

// Listeners and style are kept beside the element, so that a redraw can hand them on to the element that stays.

function wire(element, on) {
  element.acts = on;
  element.wired ??= new Set();
  for (const event of Object.keys(on)) {
    if (element.wired.has(event)) continue;
    element.wired.add(event);
    element.addEventListener(event, (happened) => element.acts?.[event]?.(happened));
  }
}

function paint(element, vars) {
  for (const key of Object.keys(element.vars ?? {})) if (!(key in vars)) element.style.removeProperty(`--${key}`);
  for (const [key, amount] of Object.entries(vars)) element.style.setProperty(`--${key}`, amount);
  element.vars = vars;
}

/** Let an element hold these children. What is there already and is meant to stay is changed, not replaced: selection,
 * focus, scroll position and what a reader has opened survive. Elements with a data-key keep their identity when moved. */
export function fill(element, ...children) {
  const focused = element.contains(document.activeElement) ? keyOf(document.activeElement) : null;
  reconcile(
    element,
    flat(children).map((child) => (child instanceof Node ? child : document.createTextNode(child))),
  );
  if (focused !== null && !element.contains(document.activeElement)) {
    [...element.querySelectorAll("a, button, summary")]
      .find((found) => keyOf(found) === focused)
      ?.focus({ preventScroll: true });
  }
}

function keyOf(element) {
  return element.closest("[data-key]")?.dataset.key ?? element.getAttribute("href");
}

function reconcile(element, fresh) {
  const keyed = new Map(
    [...element.children].filter((child) => child.dataset.key).map((child) => [child.dataset.key, child]),
  );
  let at = element.firstChild;
  for (const node of fresh) {
    const key = node.dataset?.key;
    let stays = key ? keyed.get(key) : at && !at.dataset?.key && at.nodeName === node.nodeName ? at : null;
    if (stays && stays.nodeName !== node.nodeName) stays = null;
    if (!stays) {
      element.insertBefore(node, at);
      continue;
    }
    if (stays === at) at = at.nextSibling;
    else element.insertBefore(stays, at);
    if (stays.nodeType === Node.TEXT_NODE) {
      if (stays.data !== node.data) stays.data = node.data;
    } else become(stays, node);
  }
  while (at) {
    const next = at.nextSibling;
    at.remove();
    at = next;
  }
}

function become(old, fresh) {
  const begun = old.getAttribute("data-begun") !== fresh.getAttribute("data-begun"); // what is typed stays until something else is asked
  const kept = old.nodeName === "DETAILS" ? ["style", "open"] : ["style"];
  for (const { name } of [...old.attributes])
    if (!kept.includes(name) && !fresh.hasAttribute(name)) old.removeAttribute(name);
  for (const { name, value } of fresh.attributes)
    if (!kept.includes(name) && old.getAttribute(name) !== value) old.setAttribute(name, value);
  if (fresh.vars || old.vars) paint(old, fresh.vars ?? {});
  if (fresh.acts || old.acts) wire(old, fresh.acts ?? {});
  const chosen = fresh.nodeName === "SELECT" || fresh.nodeName === "INPUT" ? fresh.value : null;
  reconcile(old, [...fresh.childNodes]);
  const typed = old.nodeName === "INPUT" && old.hasAttribute("data-begun");
  if (
    chosen !== null &&
    old.value !== chosen &&
    (typed ? begun : old.nodeName === "SELECT" || old !== document.activeElement)
  )
    old.value = chosen;
}

/** A heading with what stands beside it. */
export function head(title, ...beside) {
  return h("div", { class: "head" }, h("h2", {}, title), ...beside);
}

/** What something is called: text of its own direction, whatever letters a tenant has chosen. */
export function name(text) {
  return h("bdi", {}, text);
}

/** Words for those who do not see the picture. */
export function unseen(text) {
  return h("span", { class: "unseen" }, text);
}

const VERDICTS = { never: "bad", "not-now": "warn", "not-allowed": "held" };

/** The verdict on a job that waits, as a chip: never, not now, or not allowed. */
export function verdict(word) {
  return word ? h("span", { class: `chip solid ${VERDICTS[word] || "warn"}` }, word.replace("-", " ")) : null;
}

/** A table; a column is [title, cell, class], and a title in brackets is read aloud only. On a narrow screen each row is
 * a card, in which a cell says its title itself. */
export function table(columns, rows, props = {}) {
  const kind = (column) => ({ class: column[2] });
  const title = (text) => (text.startsWith("(") ? unseen(text.slice(1, -1)) : text);
  return h(
    "div",
    { class: "scroll", tabindex: "0", role: "region", "aria-label": props["aria-label"] ?? columns[0][0] },
    h(
      "table",
      props,
      h(
        "thead",
        {},
        h(
          "tr",
          {},
          columns.map((c) => h("th", { ...kind(c), scope: "col" }, title(c[0]))),
        ),
      ),
      h(
        "tbody",
        {},
        rows.map((row) =>
          h(
            "tr",
            {},
            columns.map((c) => h("td", { ...kind(c), "data-title": c[0].startsWith("(") ? null : c[0] }, c[1](row))),
          ),
        ),
      ),
    ),
  );
}

/** A bar: `used` of `total`, of which `fresh` is new, with a mark where one is given. The text beside it says the same. */
export function gauge(used, total, fresh = 0, mark = null) {
  const part = (amount) => (total > 0 ? Math.min(1, Math.max(0, amount / total)) : 0);
  const marked = mark !== null && total > 0;
  return h(
    "span",
    {
      class: `gauge${marked ? " marked" : ""}${used > total ? " over" : ""}`,
      "aria-hidden": "true",
      vars: { u: part(used), b: part(used - fresh), m: marked ? part(mark) : 0 },
    },
    h("i"),
    h("i"),
    marked ? h("u") : null,
  );
}

/** A command that can be taken along with one click. */
export function command(text) {
  const copy = async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(text);
      button.textContent = "copied";
    } catch {
      button.textContent = "select and copy";
    }
    setTimeout(() => {
      button.textContent = "copy";
    }, 1500);
  };
  return h(
    "p",
    { class: "command" },
    h("code", {}, text),
    " ",
    h("button", { class: "small", "aria-label": `Copy: ${text}`, on: { click: copy } }, "copy"),
  );
}
