// What would happen if: changes that stand in the address, the same board with them, and what they do to which job.

import { send } from "./api.js";
import { h, head, name, table, verdict } from "./dom.js";
import { count, few, many, percent, short } from "./format.js";
import { drawFlows } from "./flows.js";
import { link, toHyperNode, toJob } from "./route.js";

/** Kinds of changes: [name, title, what to write]. */
/** @type {Any[]} */
const KINDS = [
  ["drain", "drain a node or domain", "rack-7"],
  ["cordon", "cordon a node or domain", "rack-7"],
  ["uncordon", "uncordon a node or domain", "node-3"],
  ["remove", "remove a node or domain", "spine-1"],
  ["add-nodes", "add nodes like one", "2=node-7"],
  ["add-domains", "add domains like one", "1=rack-3"],
  ["quota", "change a quota", "team-a:nvidia.com/gpu=64"],
  ["priority", "change a priority", "default/train=1000"],
  ["constraint", "change a topology constraint", "default/train=hard:2"],
  ["loosen", "make rules about sets soft", "default/serve-0=serve"],
  ["add-parts", "add gangs like one to its sets", "1=default/serve-0"],
  ["delete", "delete a job", "default/train"],
  ["plugin", "switch a plugin on", "binpack"],
  ["without-plugin", "switch a plugin off", "binpack"],
];
const EFFECTS = {
  starts: ["starts", "good"],
  stops: ["stops", "bad"],
  "waits-longer": ["waits longer", "bad"],
  moves: ["moves", "warn"],
  grows: ["grows", "good"],
  shrinks: ["shrinks", "warn"],
  waits: ["comes and waits", "warn"],
  "another-reason": ["waits for another reason", "warn"],
  ends: ["ends", "soft"],
};

/** The address with one change more; the drawer makes room for what it does. */
export function withChange(route, kind, text) {
  const asked = new URLSearchParams(route.changes);
  asked.append(kind, text);
  return link({ ...route, changes: String(asked), asking: "", job: "", node: "" });
}

function without(route, number) {
  const left = [...new URLSearchParams(route.changes)].filter((_, i) => i !== number);
  return link({ ...route, changes: String(new URLSearchParams(left)) });
}

/** The address in which the form asks for a change that is half written: its kind, and how its text begins. */
export function asking(route, kind, text = "") {
  return link({ ...route, asking: `${kind}=${text}`, job: "", node: "" });
}

/** Questions about one thing as links: [title, kind, text]. */
export function questions(view, title, found) {
  return view.asks
    ? h(
        "p",
        { class: "questions" },
        h("span", { class: "soft" }, `${title} `),
        found.map(([words, kind, text, open]) =>
          h(
            "a",
            { class: "facet plain", href: open ? asking(view.route, kind, text) : withChange(view.route, kind, text) },
            words,
            open ? " …" : "",
          ),
        ),
      )
    : null;
}

/** What may be asked about a job: another priority, wider tiers, and what the others do without it. */
export function jobQuestions(view, job) {
  const { tiers } = view.first.columns;
  return questions(view, "What if", [
    ["its priority were", "priority", `${job}=`, true],
    ...tiers
      .slice(0, 8)
      .map(({ tier, name }) => [
        `it stayed in one ${name || `domain of tier ${tier}`}`,
        "constraint",
        `${job}=hard:${tier}`,
      ]),
    ["it might go anywhere", "constraint", `${job}=none`],
    ["it were deleted", "delete", job],
  ]);
}

export function drawWhatIf(view) {
  const { route, comparison } = view;
  const changes = [...new URLSearchParams(route.changes)];
  return [
    head(
      "What if",
      h("span", { class: "soft" }, "worked out in memory; the cluster is not touched"),
      changes.length ? copyLink() : null,
      h("a", { href: link({ ...route, changes: "", asking: "" }) }, "✕ close"),
    ),
    form(view),
    drains(view),
    changes.length
      ? h(
          "ul",
          { class: "facets" },
          changes.map(([kind, text], i) =>
            h(
              "li",
              { "data-key": `${kind} ${text}` },
              h(
                "a",
                { class: "facet chosen", href: without(route, i), title: "Take this change back" },
                kind === "submit" ? `submit the pasted manifests (${text})` : `${kind} ${text}`,
                " ✕",
              ),
            ),
          ),
        )
      : null,
    view.question ? h("p", { class: "bad", role: "alert" }, view.question) : null,
    changes.length && view.progress ? h("p", { class: "soft", role: "status" }, view.progress) : null,
    changes.length && comparison ? compared(view) : null,
  ];
}

/** What draining each domain would break, the cheapest first: worked out when somebody opens it. */
function drains(view) {
  const { drains: found, route, first } = view;
  const open = (event) => {
    if (event.currentTarget.open && !found) view.askDrains("");
    else if (!event.currentTarget.open && found?.progress) view.end("drains");
  };
  const tiers = [
    ...first.columns.tiers.map(({ tier, name }) => [String(tier), name || `tier ${tier}`]),
    ["node", "node"],
  ];
  const then = (one) =>
    !one.pods
      ? "nothing runs there"
      : one.waits === null
        ? h("span", { class: "soft" }, "not tried")
        : one.waits.length
          ? h("span", { class: "warn" }, `${many(one.waits.length, "job")} would wait: ${few(one.waits)}`)
          : h("span", { class: "good" }, "all restart elsewhere");
  const cheapest = (one) =>
    one.cheapest
      ? h("span", { title: one.windows.join("; ") }, `${one.cheapest.at} (${many(one.cheapest.gangsBroken, "gang")})`)
      : "now";
  return h(
    "details",
    { "data-key": "drains", on: { toggle: open } },
    h("summary", {}, "What can be drained?"),
    h(
      "label",
      { class: "pick" },
      "Each ",
      h(
        "select",
        { "aria-label": "What is drained", on: { change: (event) => view.askDrains(event.target.value) } },
        tiers.map(([value, title]) => h("option", { value }, title)),
      ),
    ),
    found?.progress ? h("p", { class: "soft", role: "status" }, found.progress) : null,
    found?.fault ? h("p", { class: "warn" }, found.fault) : null,
    found && !found.drains && view.counted ? countedDrains(view) : null,
    found?.drains
      ? [
          table(
            [
              [
                found.kind,
                (one) => h("a", { href: withChange(route, "drain", one.names[0]) }, name(one.names[0])),
                "long",
              ],
              ["pods that restart", (one) => count(one.pods), "num"],
              ["gangs broken", (one) => count(one.gangsBroken), "num"],
              [`${found.unit} lost`, (one) => count(Math.round(one.hoursLost)), "num"],
              ["cheapest", cheapest],
              ["then", then, "grow"],
            ],
            found.drains,
            { "aria-label": "What can be drained" },
          ),
          h(
            "p",
            { class: "soft" },
            found.count > found.drains.length ? `The cheapest of ${count(found.count)}. ` : "",
            found.stopped ?? "",
          ),
        ]
      : null,
  );
}

/** The cheapest domains by counting, until runs say more. */
function countedDrains({ counted, route }) {
  const at = (field) => counted.columns.findIndex((column) => column.name === field);
  const rows = counted.rows;
  const domain = (row) => h("a", { href: withChange(route, "drain", row[0]) }, name(row[0]));
  const number = (field) => (row) => count(row[at(field)]);
  return [
    table(
      [
        ["domain", domain, "long"],
        ["pods that restart", number("pods"), "num"],
        ["gangs broken", number("broken"), "num"],
        ["hours lost", number("lost"), "num"],
        ["room elsewhere", (row) => row[at("elsewhere")], "grow"],
      ],
      rows,
      { "aria-label": "What can be drained, by counting" },
    ),
    h("p", { class: "soft" }, `The cheapest of ${count(counted.of)} by counting; none of them is tried yet.`),
  ];
}

/** A link that leads others on this machine to the same answer. */
function copyLink() {
  const copy = async (event) => {
    const button = event.currentTarget;
    try {
      await navigator.clipboard.writeText(location.href);
      button.textContent = "copied";
    } catch {
      button.textContent = "copy the address of this page";
    }
    setTimeout(() => {
      button.textContent = "copy link";
    }, 1500);
  };
  return h("button", { class: "small", "data-key": "copy-link", on: { click: copy } }, "copy link");
}

/** Manifests to begin with: a gang of this cluster's own resource, in its innermost domains or anywhere. */
/** @type {Any[]} */
const EXAMPLES = [
  ["a gang of 4 pods in one innermost domain", { pods: 4, within: true }],
  ["a gang of 16 pods anywhere", { pods: 16, within: false }],
  ["a pod by itself", { pods: 1, within: false, alone: true }],
];

function example({ board, first }, { pods, within, alone }) {
  const [resource] = board.resources,
    innermost = first.columns.tiers[0]?.tier;
  const amount = resource.includes("/") ? 1 : resource === "cpu" ? 4 : "1Gi";
  const pod = (i) => [
    "apiVersion: v1",
    "kind: Pod",
    "metadata:",
    `  name: example-${i}`,
    "  namespace: default",
    alone ? "" : "  annotations: {scheduling.k8s.io/group-name: example}",
    "spec:",
    "  schedulerName: volcano",
    "  containers:",
    "  - name: main",
    "    resources:",
    `      requests: {"${resource}": ${amount}}`,
    `      limits: {"${resource}": ${amount}}`,
  ];
  const group = [
    "apiVersion: scheduling.volcano.sh/v1beta1",
    "kind: PodGroup",
    "metadata: {name: example, namespace: default}",
    "spec:",
    `  minMember: ${pods}`,
    within && innermost !== undefined ? `  networkTopology: {mode: hard, highestTierAllowed: ${innermost}}` : "",
  ];
  return [...(alone ? [] : [group]), ...[...Array(pods).keys()].map(pod)]
    .map((lines) => lines.filter(Boolean).join("\n"))
    .join("\n---\n");
}

function form(view) {
  const { route } = view;
  const [half, begun = ""] = route.asking.split(/=(.*)/s);
  const chosen = KINDS.find(([name]) => name === half) ?? KINDS[0];
  const fillIn = (event) => {
    const found = EXAMPLES[event.currentTarget.selectedIndex - 1];
    if (found) event.currentTarget.form.elements.manifests.value = example(view, found[1]);
  };
  const value = (event, name) => event.currentTarget.elements[name].value.trim();
  const add = (event) => {
    event.preventDefault();
    const [kind, text] = [value(event, "kind"), value(event, "text")];
    if (text) {
      event.currentTarget.elements.text.value = "";
      location.hash = withChange(route, kind, text);
    }
  };
  const submit = async (event) => {
    event.preventDefault();
    const text = value(event, "manifests");
    if (text) view.submit(text);
  };
  const drop = async (event) => {
    // files are read by the browser and sent as if they were pasted
    event.preventDefault();
    const texts = await Promise.all([...event.dataTransfer.files].map((file) => file.text()));
    if (texts.length) view.submit(texts.join("\n---\n"));
  };
  const pick = (event) => {
    event.currentTarget.form.elements.text.placeholder = KINDS.find(([name]) => name === event.currentTarget.value)[2];
  };
  return [
    h(
      "form",
      { class: "ask", "data-key": "change", on: { submit: add } },
      h(
        "select",
        { name: "kind", "aria-label": "Kind of change", on: { change: pick } },
        KINDS.map(([name, title]) => h("option", { value: name, selected: name === chosen[0] }, title)),
      ),
      h("input", {
        name: "text",
        type: "text",
        "data-begun": route.asking,
        value: begun,
        placeholder: chosen[2],
        "aria-label": "What is changed",
        autocomplete: "off",
      }),
      h("button", {}, "add"),
    ),
    h(
      "details",
      { "data-key": "paste" },
      h("summary", {}, "submit manifests"),
      h(
        "form",
        { on: { submit, drop, dragover: (event) => event.preventDefault() } },
        h(
          "select",
          { name: "example", "aria-label": "Example", on: { change: fillIn } },
          h("option", {}, "begin with an example"),
          EXAMPLES.map(([title]) => h("option", {}, title)),
        ),
        h("textarea", {
          name: "manifests",
          rows: "8",
          "aria-label": "Manifests in YAML or JSON",
          placeholder: "paste or drop manifests here",
          spellcheck: "false",
        }),
        h("button", {}, "submit"),
      ),
    ),
  ];
}

/** Send manifests to be kept, and ask what they would do. */
export async function submitted(route, text) {
  const { name } = await send("/api/manifests", text);
  return withChange(route, "submit", name);
}

/** What the changes do to those who run and to those who wait, in one sentence. */
function summary(jobs) {
  const of = (effect, runs) => jobs.filter((job) => job.effect === effect && job.runsNow === runs);
  const restart = jobs.filter((job) => job.runsNow && job.effect !== "stops").reduce((sum, job) => sum + job.moved, 0);
  const [stop, elsewhere, longer] = [of("stops", true), of("moves", false), of("waits-longer", false)];
  const starts = jobs.filter((job) => job.effect === "starts").length;
  const parts = [
    h("b", { class: restart ? "bad" : "" }, restart === 1 ? "1 pod restarts" : `${count(restart)} pods restart`),
    h("b", { class: stop.length ? "bad" : "" }, stop.length === 1 ? "1 job stops" : `${count(stop.length)} jobs stop`),
    starts ? h("b", { class: "good" }, starts === 1 ? "1 job starts" : `${count(starts)} jobs start`) : null,
    longer.length ? `${count(longer.length)} that would start wait longer` : null,
    elsewhere.length ? `${count(elsewhere.length)} only plan elsewhere` : null,
  ].filter((part) => part !== null);
  return h(
    "p",
    { class: "said" },
    parts.map((part, i) => [i ? ", " : "", part]),
    ".",
  );
}

function compared({ history, comparison, route, first, before: base, board, worked }) {
  const then = history.recorded ? "as it was" : "now";
  const { before, after, jobs, notes } = comparison;
  const share = (side) => (side.capacity ? percent(side.used / side.capacity) : "–");
  const rows = [
    ["jobs that run", (s) => count(s.running)],
    ["jobs that wait", (s) => count(s.waiting)],
    ["pods on nodes", (s) => count(s.podsOnNodes)],
    [
      `${before.resource} in use`,
      (s) => `${short(before.resource, s.used)} of ${short(before.resource, s.capacity)}, ${share(s)}`,
    ],
    ["pods that the scheduler evicts", (s) => count(s.podsEvicted)],
  ];
  const place = (state) => {
    if (!state) return "–";
    if (!state.started) return [verdict(state.verdict), " ", state.message || "waits"];
    return state.hyperNode && first.find(state.hyperNode) > 0
      ? h("a", { href: toHyperNode(route, state.hyperNode) }, state.hyperNode)
      : `${many(state.pods, "pod")} in the whole cluster`;
  };
  const kind = (job) => {
    if (job.effect !== "moves") return EFFECTS[job.effect] ?? [job.effect, "soft"];
    return job.runsNow
      ? [`${job.moved} of ${many(job.before.pods, "pod")} ${job.moved === 1 ? "restarts" : "restart"}`, "bad"]
      : ["plans elsewhere", "soft"];
  };
  return [
    summary(jobs),
    worked ? h("p", { class: "soft" }, worked) : null,
    base ? drawFlows(base, board, comparison.flows) : null,
    table(
      [
        ["figure", ([title]) => title],
        [then, ([, text]) => text(before), "num"],
        [
          "with the changes",
          ([, text]) => h("b", { class: text(before) === text(after) ? "" : "warn" }, text(after)),
          "num",
        ],
      ],
      rows,
    ),
    notes.map((note) => h("p", { class: "soft" }, note)),
    jobs.length
      ? table(
          [
            ["job", (job) => h("a", { href: toJob(route, job.podGroup) }, job.name), "long"],
            ["effect", (job) => h("span", { class: `chip ${kind(job)[1]}` }, kind(job)[0])],
            [then, (job) => place(job.before), "grow"],
            ["with the changes", (job) => place(job.after), "grow"],
          ],
          jobs.slice(0, 100),
        )
      : h("p", {}, "It does nothing to any job."),
    h(
      "p",
      { class: "soft" },
      `${many(comparison.unchanged, "other job")} as now.${jobs.length > 100 ? ` ${count(jobs.length - 100)} more that change are not listed.` : ""} The map and the lists show the cluster with the changes.`,
    ),
  ];
}

/** The least that makes a job start, in its drawer: worked out when somebody asks. */
export function least(view) {
  const { found } = view;
  const open = (event) => {
    if (event.currentTarget.open) view.askLeast();
    else if (view.found?.progress) view.end("least");
  };
  return h(
    "details",
    { "data-key": "least", on: { toggle: open } },
    h("summary", {}, "What would start it now?"),
    found?.progress ? h("p", { class: "soft", role: "status" }, found.progress) : null,
    !found?.ways && !found?.fault
      ? null
      : found.fault
        ? h("p", { class: "warn" }, found.fault)
        : found.startsAnyway
          ? h("p", {}, "It starts as things are.")
          : [
              h(
                "ul",
                {},
                found.ways.map((way) =>
                  h(
                    "li",
                    {},
                    way.text,
                    way.exact
                      ? ""
                      : h("span", { class: "soft" }, way.counted ? " (counted, not tried)" : " (less may do)"),
                  ),
                ),
              ),
              found.notSettled.length
                ? h(
                    "p",
                    { class: "soft" },
                    `Not settled, because the runs that one way may take were used up: ${found.notSettled.join("; ")}`,
                  )
                : null,
              found.noHelp.length ? h("p", { class: "soft" }, `No help: ${found.noHelp.join("; ")}`) : null,
              found.stopped ? h("p", { class: "soft" }, found.stopped) : null,
              found.ways.length || found.progress || found.stopped
                ? null
                : h("p", { class: "warn" }, "Nothing that was tried makes it start."),
            ],
  );
}
