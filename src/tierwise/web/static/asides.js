// What is worked out when somebody opens it: what each node says to a job, the least change that would start it, when it
// is expected to start. Answers belong to one job of one board: those of another are dropped.

import { address, path } from "./addresses.js";
import { ask, follow } from "./api.js";
import { parse } from "./route.js";

export class Asides {
  /** @param {() => void} told is called when an answer has come */
  constructor(told) {
    this._told = told;
    this._key = "";
    /** @type {Any} */
    this.nodes = null;
    /** @type {Any} */
    this.least = null;
    /** @type {Any} */
    this.eta = null;
    /** @type {Any} */
    this.etas = null; // of all jobs
    /** @type {Any} */
    this.drains = null; // what draining each domain of a tier would cost
    /** @type {Any} */
    this.counted = null; // the same by counting alone, which is there at once
    /** @type {Record<string, AbortController | null>} */
    this._asking = {};
  }

  /** From now on it is about this job; with `renewed`, of another board. What nobody waits for any more is ended. */
  about(key, renewed) {
    if (renewed) {
      this.end("etas");
      this.end("drains");
    }
    if (key === this._key && !renewed) return;
    this._key = key;
    this.nodes = null;
    this.end("least");
    this.end("eta");
  }

  /** End a question, and forget what is known of it. */
  end = (what) => {
    this._asking[what]?.abort();
    this._asking[what] = null;
    this[what] = null;
  };

  askNodes = () => this._ask("nodes", (key) => address(`nodes-for/${path(key)}`, parse(location.hash)));
  askLeast = () => this._follow("least", address(`least/${path(this._key)}`, { ...parse(location.hash), changes: "" }));
  askEta = () => this._follow("eta", address(`eta/${path(this._key)}`, { ...parse(location.hash), changes: "" }));
  askEtas = () => this._follow("etas", address("eta", { ...parse(location.hash), changes: "" }));
  askDrains = (tier) => {
    this.end("drains");
    this._count(tier);
    return this._follow("drains", address("drainable", { ...parse(location.hash), changes: "" }, { tier }));
  };

  /** Count what draining each domain of a tier would cost; of single nodes only the runs tell. */
  async _count(tier) {
    this.counted = null;
    if (tier === "node") return;
    const asked = { tier: tier || "lowest", sort: "broken,lost,pods", limit: "10" };
    const found = await answered(address("table/domains", { ...parse(location.hash), changes: "" }, asked));
    this.counted = found.rows ? found : null;
    this._told();
  }

  /** Ask, and tell how far it is; what is known already stands beside that. */
  async _follow(what, where) {
    if (this[what]) return;
    const asking = new AbortController();
    this._asking[what] = asking;
    this[what] = { progress: "Working it out …" };
    this._told();
    /** @type {Any} */
    let found;
    try {
      found = await follow(where, asking.signal, (message) => {
        this[what] = { ...message.part, progress: working(message) };
        this._told();
      });
    } catch (error) {
      found = { fault: said(error) };
    }
    if (this._asking[what] !== asking) return; // nobody waits for it any more
    this._asking[what] = null;
    this[what] = found;
    this._told();
  }

  async _ask(what, where) {
    const key = this._key;
    if (this[what] || !key) return;
    const value = await answered(where(key));
    if (this._key !== key) return; // somebody opened another job meanwhile
    this[what] = value;
    this._told();
  }
}

/** An answer; what went wrong is one, too. */
async function answered(where) {
  try {
    return (await ask(where)).value ?? { none: true };
  } catch (error) {
    return { fault: said(error) };
  }
}

/** How far a question is, in words. */
export const working = (message) =>
  `Working it out, ${Math.round(message.seconds)} s so far${message.progress ? `: ${message.progress}` : ""} …`;

/** What an error says to people. */
export const said = (error) => (error instanceof Error ? error.message : String(error));
