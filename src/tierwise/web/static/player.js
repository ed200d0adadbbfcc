// Time that goes by in a recording: one moment after the other, up to the last.

import { shownMoment } from "./past.js";
import { link, parse } from "./route.js";

/** Show a moment, of another run where one is named; one that was only passed is no place to come back to. */
export function jump(at, run = parse(location.hash).run) {
  location.replace(link({ ...parse(location.hash), at, run, during: "" }));
}

export class Player {
  /** @param {() => Any} history what there is to play
   * @param {() => void} told is called when it stops, begins or gets another speed */
  constructor(history, told) {
    this._history = history;
    this._told = told;
    this._timer = 0;
    this.playing = false;
    this.speed = 1;
  }

  /** Begin, from the first moment where the last is shown; a second press stops. */
  play = () => {
    clearTimeout(this._timer);
    this.playing = !this.playing;
    if (!this.playing) {
      this._told();
      return;
    }
    const { moments } = this._history();
    if (this._shown() === moments.length - 1) jump(String(moments[0].id));
    else this._step();
  };

  setSpeed = (speed) => {
    this.speed = speed;
    this._told();
  };

  /** What was asked for is drawn: the next moment follows. */
  goOn() {
    if (this.playing) this._timer = window.setTimeout(() => this._step(), 1000 / this.speed);
  }

  /** So many moments on, or back. */
  by(number) {
    const { moments } = this._history();
    const found = moments[this._shown() + number];
    if (found) jump(found === moments.at(-1) ? "" : String(found.id));
  }

  _step() {
    if (!this.playing) return;
    if (this._shown() + 1 < this._history().moments.length) {
      this.by(1);
      return;
    }
    this.playing = false;
    this._told();
  }

  _shown() {
    return shownMoment(this._history(), parse(location.hash));
  }
}
