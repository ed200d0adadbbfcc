// The page for one namespace: its jobs, why they wait, when they start, its queues and what fits. It asks the answers API
// with the token that the user types in, which is kept in this tab's memory alone.
import { fill, h } from "./dom.js";

const AGAIN = 15_000; // milliseconds: an answer is that old at least before there is a newer one

const state = { namespace: "", token: "", job: "", asked: 0 };
let timer = 0;

/** An element of the page. */
function part(id) {
  const element = document.getElementById(id);
  if (!element) throw new Error(`the page has no ${id}`);
  return element;
}

/** The answer to a question, by its path below the namespace; throws an Error with the sentence of a refusal. */
async function ask(path, body) {
  const address = `/v1/namespaces/${encodeURIComponent(state.namespace)}/${path}`;
  const headers = { Authorization: `Bearer ${state.token}` };
  const response = await fetch(address, body === undefined ? { headers } : { method: "POST", headers, body });
  const answer = await response.json();
  if (!response.ok) throw new Error(answer.message);
  return answer;
}

function busy(is) {
  document.querySelector("main")?.setAttribute("aria-busy", String(is));
}

function say(text) {
  const fault = part("fault");
  fault.hidden = !text;
  fault.textContent = text;
}

/** A table; each row is a list of texts, numbers and elements. */
function table(titles, rows) {
  const cell = (tag) => (value) => h(tag, { class: typeof value === "number" ? "num" : null }, value);
  return h(
    "div",
    { class: "scrolls" },
    h(
      "table",
      { class: "answers" },
      h("thead", {}, h("tr", {}, ...titles.map(cell("th")))),
      h("tbody", {}, ...rows.map((row) => h("tr", {}, ...row.map(cell("td"))))),
    ),
  );
}

const VERDICTS = { never: "never", "not-now": "not now", "not-allowed": "not allowed" };

function jobRow(job) {
  const open = h("button", { type: "button", on: { click: () => show(job.name) } }, job.name);
  const waits = job.verdict ? `${VERDICTS[job.verdict]}: ${job.reason}` : "";
  return [open, job.state, job.podsRunning, job.podsWaiting, job.queue, waits];
}

function jobsTable(answer) {
  if (!answer.jobs.length) return h("p", { class: "soft" }, "No job of this namespace is waiting or running.");
  return table(["job", "state", "running", "waiting", "queue", "why it waits"], answer.jobs.map(jobRow));
}

function queuesTable(answer) {
  if (!answer.queues.length) return h("p", { class: "soft" }, "None of its jobs is in a queue.");
  const rows = answer.queues.map((queue) => [
    queue.name,
    `${queue.usedHere} ${queue.resource}`,
    queue.used ? `${queue.used}${queue.limit ? ` of ${queue.limit}` : ""}` : "not shown to you",
    queue.jobsRunning,
    queue.jobsWaiting,
  ]);
  return table(["queue", "used by this namespace", "used by all", "running", "waiting"], rows);
}

function range(number) {
  if (number.atMost === null) return `more than ${number.atLeast - 1}`;
  return number.atLeast === number.atMost ? `${number.atLeast}` : `${number.atLeast} to ${number.atMost}`;
}

function fitsTable(answer) {
  const rows = answer.slots
    .filter((slot) => slot.gangs.atMost !== 0)
    .map((slot) => [slot.tier, slot.size, range(slot.gangs)]);
  if (!rows.length) return h("p", { class: "soft" }, `No ${answer.resource} is free.`);
  return table(["inside one", `gang of so many ${answer.resource}`, "fit now"], rows);
}

/** Everything about the namespace, anew. */
async function refresh() {
  clearTimeout(timer);
  const asked = ++state.asked;
  busy(true);
  try {
    const [jobs, queues, fits] = await Promise.all([ask("jobs?limit=500"), ask("queues"), ask("fits")]);
    if (asked !== state.asked) return; // another namespace was asked for meanwhile
    say("");
    fill(part("about"), `namespace ${state.namespace}, as of ${jobs.asOf.slice(11, 19)} UTC`);
    fill(part("jobs"), jobsTable(jobs));
    fill(part("queues"), queuesTable(queues));
    fill(part("fits"), fitsTable(fits));
  } catch (error) {
    if (asked === state.asked) say(error instanceof Error ? error.message : String(error));
  }
  if (asked !== state.asked) return;
  busy(false);
  timer = setTimeout(refresh, AGAIN);
}

function lines(...pairs) {
  return pairs.filter(([, text]) => text).map(([title, text]) => h("p", {}, h("b", {}, `${title}: `), text));
}

function historyTable(answer) {
  if (!answer.entries.length) return null;
  const rows = answer.entries.map((entry) => [entry.at.replace("T", " ").replace("Z", ""), entry.text || entry.event]);
  return [h("h3", {}, "What happened"), table(["at (UTC)", "what"], rows)];
}

/** One job: why it waits, when it starts, and what happened to it. */
async function show(name) {
  state.job = name;
  const path = `jobs/${encodeURIComponent(name)}`;
  const section = part("job");
  section.hidden = false;
  fill(section, h("h2", {}, name), h("p", { class: "soft" }, "asking…"));
  try {
    const [job, history] = await Promise.all([ask(path), ask(`${path}/history`)]);
    const waits = job.podsWaiting > 0 && job.state !== "starts";
    const [start, position] = waits ? await Promise.all([ask(`${path}/start`), ask(`${path}/position`)]) : [null, null];
    if (state.job !== name) return;
    const help = h("div", {});
    const asks = { click: () => showHelp(path, help) };
    fill(
      section,
      h("h2", {}, name),
      ...lines(
        ["state", job.state],
        ["domain", job.domain],
        [VERDICTS[job.verdict] ?? "why", job.message],
        ["what to do", job.cure],
        ["expected start", start?.text],
        ["position", position?.text],
      ),
      waits ? h("button", { type: "button", on: asks }, "What would start it now?") : null,
      help,
      historyTable(history),
    );
  } catch (error) {
    if (state.job === name) fill(section, h("h2", {}, name), h("p", { class: "bad" }, String(error)));
  }
}

async function showHelp(path, place) {
  fill(place, h("p", { class: "soft" }, "trying…"));
  try {
    const answer = await ask(`${path}/help`);
    const ways = answer.ways.map((way) => h("li", {}, way.text));
    const none = answer.starts ? "The next cycle starts it anyway." : "No single change would.";
    fill(place, ways.length ? h("ul", {}, ...ways) : h("p", {}, none));
  } catch (error) {
    fill(place, h("p", { class: "bad" }, error instanceof Error ? error.message : String(error)));
  }
}

async function tryOut() {
  const place = part("tried");
  fill(place, h("p", { class: "soft" }, "trying…"));
  try {
    const field = /** @type {HTMLTextAreaElement} */ (part("manifests"));
    const answer = await ask("dry-run", field.value);
    const rows = answer.jobs.map((job) => [
      job.name,
      job.starts ? "would start" : `waits, ${VERDICTS[job.verdict] ?? ""}`,
      job.podsPlaced,
      job.pods,
      job.message,
    ]);
    fill(
      place,
      rows.length ? table(["job", "", "placed", "pods", "why"], rows) : h("p", {}, "No job is in it."),
      ...answer.warnings.map((text) => h("p", { class: "warn" }, text)),
    );
  } catch (error) {
    fill(place, h("p", { class: "bad" }, error instanceof Error ? error.message : String(error)));
  }
}

part("enter").addEventListener("submit", (event) => {
  event.preventDefault();
  state.namespace = /** @type {HTMLInputElement} */ (part("namespace")).value.trim();
  state.token = /** @type {HTMLInputElement} */ (part("token")).value.trim();
  state.job = "";
  part("job").hidden = true;
  refresh();
});

part("try").addEventListener("submit", (event) => {
  event.preventDefault();
  tryOut();
});

busy(false);
