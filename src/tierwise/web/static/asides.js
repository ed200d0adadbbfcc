// What is worked out when somebody opens it: what each node says to a job, the least change that would start it, when it
// is expected to start. Answers belong to one job of one board: those of another are dropped.

import { address, path } from "./addresses.js";
import { ask } from "./api.js";
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
  }

  /** From now on it is about this job; with `renewed`, of another board. */
  about(key, renewed) {
    if (renewed) this.etas = null;
    if (key === this._key && !renewed) return;
    this._key = key;
    this.nodes = this.least = this.eta = null;
  }

  askNodes = () => this._ask("nodes", (key) => address(`nodes-for/${path(key)}`, parse(location.hash)));
  askLeast = () => this._ask("least", (key) => address(`least/${path(key)}`, { ...parse(location.hash), changes: "" }));
  askEta = () => this._ask("eta", (key) => `/api/eta/${path(key)}`);

  askEtas = async () => {
    this.etas = await answered("/api/eta");
    this._told();
  };

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

/** What an error says to people. */
export const said = (error) => (error instanceof Error ? error.message : String(error));
