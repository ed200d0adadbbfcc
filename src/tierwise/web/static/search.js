// One search over jobs, pods, nodes, domains and queues: the server finds, arrows choose, Enter goes there. The last
// line narrows the lists to jobs that match.

import { ask } from "./api.js";
import { said } from "./asides.js";
import { fill, h, name } from "./dom.js";
import { count } from "./format.js";
import { timeHit } from "./timeline.js";
import { link, parse, toDomain, toJob, toNode } from "./route.js";

const TITLES = { job: "Jobs", domain: "Domains", node: "Nodes", queue: "Queues", pod: "Pods" };
const WAIT = 120; // milliseconds without another letter

/** Let a field search, with the list of hits below it. */
export function searchable(field, list) {
  let timer = 0,
    chosen = -1,
    asked = "",
    listed = ""; // the text that the list is the answer to
  const close = () => {
    clearTimeout(timer); // a look that is still to come would open the list again
    asked = listed = "";
    list.hidden = true;
    chosen = -1;
    field.setAttribute("aria-expanded", "false");
    field.removeAttribute("aria-activedescendant");
  };
  const options = () => [...list.querySelectorAll("[role=option]")];
  const choose = (number) => {
    const all = options();
    chosen = all.length ? (number + all.length) % all.length : -1;
    all.forEach((option, i) => option.setAttribute("aria-selected", String(i === chosen)));
    if (chosen >= 0) {
      field.setAttribute("aria-activedescendant", all[chosen].id);
      all[chosen].scrollIntoView({ block: "nearest" });
    }
  };
  const look = async () => {
    clearTimeout(timer);
    const text = field.value.trim();
    if (!text) {
      close();
      return;
    }
    asked = text;
    let found;
    try {
      found = (await ask(`/api/search?${new URLSearchParams({ q: text, ...moment(parse(location.hash)) })}`)).value;
    } catch (error) {
      found = { kinds: [], fault: said(error) };
    }
    if (asked !== text) return; // somebody typed on, or went away
    listed = text;
    fill(list, hits(found, text));
    list.hidden = false;
    field.setAttribute("aria-expanded", "true");
    choose(0);
  };
  const go = async () => {
    const text = field.value.trim();
    if (text && text !== listed) await look(); // what is listed answers an older text
    if (text === listed && text === field.value.trim()) options()[chosen]?.click();
  };
  field.addEventListener("input", () => {
    clearTimeout(timer);
    timer = setTimeout(look, WAIT);
  });
  field.addEventListener("keydown", (event) => {
    if (event.key === "ArrowDown" || event.key === "ArrowUp") {
      event.preventDefault();
      choose(chosen + (event.key === "ArrowDown" ? 1 : -1));
    } else if (event.key === "Enter") {
      event.preventDefault();
      go();
    } else if (event.key === "Escape" && !list.hidden) {
      event.stopPropagation();
      close();
    }
  });
  const leave = () => document.activeElement !== field && close(); // unless somebody came back meanwhile
  field.addEventListener("blur", () => setTimeout(leave, 150));
  list.addEventListener("mousedown", (event) => event.preventDefault()); // the field keeps the focus
  list.addEventListener("click", (event) => {
    if (event.target.closest("[role=option]")) {
      close();
      field.value = "";
      field.blur();
    }
  });
}

/** The run and the moment that are shown. */
const moment = ({ run, at }) => ({ ...(run ? { run } : {}), ...(/^\d+$/.test(at) ? { at } : {}) });

function hits(found, text) {
  const route = parse(location.hash);
  let number = 0;
  const option = (href, ...inside) =>
    h("a", { role: "option", id: `hit-${number++}`, href, tabindex: "-1", "aria-selected": "false" }, ...inside);
  const target = {
    job: (hit) => toJob(route, hit.path),
    pod: (hit) => toJob(route, hit.path),
    node: (hit) => toNode(route, hit.name),
    domain: (hit) => toDomain({ ...route, fabric: hit.fabric ?? "" }, hit.name),
    queue: (hit) => link({ ...route, queue: hit.name }),
  };
  const time = timeHit(route, text);
  const some = found.kinds.filter((kind) => kind.count);
  return [
    found.fault ? h("p", { class: "warn" }, found.fault) : null,
    time ? option(...time) : null,
    some.map((kind) =>
      h(
        "div",
        { role: "group", "aria-label": TITLES[kind.kind] },
        h("div", { class: "soft kind" }, `${TITLES[kind.kind]} ${count(kind.count)}`),
        kind.hits.map((hit) =>
          option(
            target[kind.kind](hit),
            h("b", {}, name(hit.title ?? hit.name)),
            " ",
            h("span", { class: "soft" }, hit.beside ?? ""),
          ),
        ),
      ),
    ),
    some.length || found.fault || time ? null : h("p", { class: "soft" }, "Nothing has this in its name."),
    option(link({ ...route, filter: text }), "Show only jobs that match ", h("b", {}, text)),
  ];
}
