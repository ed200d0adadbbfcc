// What if: a question that is worked out by the server while the page shows what there is. It ends when nobody waits.

import { address } from "./addresses.js";
import { follow } from "./api.js";
import { said, working } from "./asides.js";

export class WhatIfQuestion {
  /** @param {() => void} told is called when there is something new to say
   * @param {() => void} done is called when there is an answer */
  constructor(told, done) {
    this._told = told;
    this._done = done;
    this._address = "";
    /** @type {AbortController | null} */
    this._asking = null;
    this._clear();
  }

  _clear() {
    /** @type {Any} */
    this.comparison = null;
    this.progress = "";
    this.fault = "";
    this.at = 0; // when it was answered
  }

  /** Ask what an address asks, where that is something else than before, or once more with `again`.
   *
   * @param {Route} route */
  about(route, again = false) {
    const where = route.changes ? address("what-if", { changes: route.changes, run: route.run, at: route.at }) : "";
    if (where === this._address && !again) return;
    this._asking?.abort();
    this._asking = null;
    if (where !== this._address) this._clear();
    this._address = where;
    if (where) this._ask(where);
  }

  async _ask(where) {
    const asking = new AbortController();
    this._asking = asking;
    this.fault = "";
    this.progress = "Working it out …";
    try {
      const found = await follow(where, asking.signal, (message) => {
        this.progress = working(message);
        if (message.part) this.comparison = message.part;
        this._told();
      });
      if (this._asking !== asking) return;
      this.comparison = found;
    } catch (error) {
      if (this._asking !== asking) return; // something else is asked, or nothing
      this.fault = said(error);
      this.comparison = null;
    }
    this._asking = null;
    this.progress = "";
    this.at = Date.now() / 1000;
    this._done();
  }

  /** Whether the board with the changes can be asked for. */
  get ready() {
    return this.comparison !== null && !this._asking;
  }
}
