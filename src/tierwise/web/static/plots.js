// Series on one axis of real time: steps between moments and bars where something happened. The pointer reads a moment,
// a click shows it, and a drag chooses a while. Drawn by uPlot, which is loaded with the second moment.

import { age, clock, tick } from "./format.js";

const HEIGHT = 30,
  AXIS = 22;

/** Charts below each other in a host that nobody else fills. */
export class Plots {
  constructor(host) {
    this.host = host;
    /** @type {Any[]} */
    this.rows = [];
    /** @type {Any} */
    this.drawn = null;
    /** @type {Any} */
    this.uPlot = null;
    this.titles = "";
    this.when = document.createElement("p");
    this.when.className = "when soft num";
    new ResizeObserver(() => this.drawn && this.show(this.drawn)).observe(host);
    for (const query of ["(prefers-color-scheme: dark)", "(forced-colors: active)"])
      matchMedia(query).addEventListener("change", () => {
        this.clear();
        if (this.drawn) this.show(this.drawn);
      });
  }

  clear() {
    for (const row of this.rows) row.plot.destroy();
    this.rows = [];
    this.host.replaceChildren();
  }

  /** Draw; `drawn` has series, moments, chosen, end, range, during, and what a click or a drag does. */
  async show(drawn) {
    this.drawn = drawn;
    this.uPlot ??= (await import("./uplot.js")).default;
    if (this.drawn !== drawn) return; // something newer came meanwhile
    const titles = drawn.series.map((one) => one.title).join();
    if (this.titles !== titles || !this.rows.length) {
      this.clear();
      this.titles = titles;
      this.rows = drawn.series.map((one, i) => this.row(one, i === drawn.series.length - 1));
    }
    const xs = drawn.moments.map((moment) => moment.now);
    const lasting = drawn.end > xs.at(-1); // nothing has happened since
    this.rows.forEach((row, i) => {
      const one = drawn.series[i];
      const ys = drawn.moments.map(one.value);
      const width = row.box.clientWidth;
      row.top = one.most || Math.max(1, ...ys);
      if (width > 0 && width !== row.plot.width) row.plot.setSize({ width, height: row.plot.height });
      row.plot.setData(
        lasting
          ? [
              [...xs, drawn.end],
              [...ys, one.events ? null : ys.at(-1)],
            ]
          : [xs, ys],
      );
      row.box.setAttribute("aria-label", `${one.title}: ${one.text(drawn.moments[drawn.chosen])} at the moment shown`);
    });
    this.read(null);
  }

  /** The values at a moment, beside each chart: the one shown, or the one below the pointer. */
  read(index) {
    const { moments, chosen, series } = this.drawn;
    const at = moments[Math.min(index ?? chosen, moments.length - 1)];
    this.rows.forEach((row, i) => {
      row.value.textContent = series[i].text(at);
    });
    this.when.textContent = index === null || at === undefined ? "" : clock(at.now);
  }

  /** The moment below the pointer: the last one that was not after it, give or take the width of a bar. */
  below(plot) {
    const time = plot.posToVal(plot.cursor.left + 3, "x");
    return Math.max(
      0,
      this.drawn.moments.findLastIndex((moment) => moment.now <= time),
    );
  }

  row(one, last) {
    const { uPlot } = this;
    const figure = document.createElement("figure");
    const caption = document.createElement("figcaption");
    const title = document.createElement("span");
    const value = document.createElement("b");
    const box = document.createElement("div");
    title.className = "soft";
    title.textContent = one.title;
    value.className = "num";
    box.className = `plot ${one.kind}`;
    box.setAttribute("role", "img");
    caption.append(title, " ", value);
    figure.append(caption, box);
    this.host.append(figure);
    if (last) this.host.append(this.when);
    const colour = getComputedStyle(box).color,
      soft = getComputedStyle(title).color,
      rule = getComputedStyle(box).outlineColor,
      ring = getComputedStyle(box).borderBottomColor;
    const row = { box, value, top: 1 };
    let dragged = false;
    row.plot = new uPlot(
      {
        width: Math.max(60, box.clientWidth),
        height: HEIGHT + (last ? AXIS : 0),
        padding: [3, 0, last ? 0 : 1, 0],
        legend: { show: false },
        tzDate: (time) => uPlot.tzDate(new Date(time * 1e3), "Etc/UTC"),
        scales: { x: { time: true, range: () => this.drawn.range }, y: { range: () => [0, row.top] } },
        axes: [
          {
            show: last,
            size: AXIS,
            font: "11px system-ui, sans-serif",
            stroke: soft,
            gap: 2,
            grid: { show: false },
            ticks: { size: 4, stroke: rule, width: 1 },
            space: 70,
            values: (plot, splits, _, __, step) => labels(plot, splits, step),
          },
          { show: false },
        ],
        series: [
          {},
          {
            stroke: colour,
            fill: one.events ? colour : colour.replace(/^rgb\((.*)\)$/, "rgba($1, 0.18)"),
            width: 1.5,
            points: { show: false },
            paths: one.events ? uPlot.paths.bars({ size: [1, 3, 3], align: 0 }) : uPlot.paths.stepped({ align: 1 }),
          },
        ],
        cursor: {
          y: false,
          points: { show: false },
          drag: { x: true, y: false, setScale: false, dist: 6 },
          sync: { key: "time", filters: { pub: (type) => type === "mousemove" || type === "mouseleave" } },
        },
        hooks: {
          setCursor: [(plot) => this.read(plot.cursor.left < 0 ? null : this.below(plot))],
          setSelect: [
            (plot) => {
              const { left, width } = plot.select;
              if (width < 6) return;
              dragged = true;
              this.drawn.choose(Math.floor(plot.posToVal(left, "x")), Math.ceil(plot.posToVal(left + width, "x")));
              plot.setSelect({ left: 0, width: 0, top: 0, height: 0 }, false);
            },
          ],
          drawClear: [(plot) => this.shade(plot, rule)],
          draw: [(plot) => this.mark(plot, ring)],
        },
      },
      [[], []],
      box,
    );
    row.plot.over.addEventListener("click", () => {
      if (!dragged && row.plot.cursor.left >= 0) this.drawn.go(this.below(row.plot));
      dragged = false;
    });
    row.plot.over.addEventListener("dblclick", () => this.drawn.choose(0, 0));
    return row;
  }

  /** The while that is chosen, behind the series. */
  shade(plot, colour) {
    const { during } = this.drawn;
    if (!during) return;
    const [from, to] = [during.from, during.to + 1].map((time) => plot.valToPos(time, "x", true));
    bar(plot, from, Math.max(1, to - from), colour);
  }

  /** The moment that is shown. */
  mark(plot, colour) {
    const { moments, chosen } = this.drawn;
    const at = Math.round(plot.valToPos(moments[chosen].now, "x", true));
    if (at < plot.bbox.left || at > plot.bbox.left + plot.bbox.width) return;
    bar(plot, at - 1, 2, colour);
  }
}

/** A bar from top to bottom. uPlot remembers which colour it has set, so the one that it draws with is put back. */
function bar(plot, left, width, colour) {
  plot.ctx.save();
  plot.ctx.fillStyle = colour;
  plot.ctx.fillRect(left, plot.bbox.top, width, plot.bbox.height);
  plot.ctx.restore();
}

const LETTER = 6.2; // pixels, about, of a label

/** Times below the axis: what would be cut at an edge is left out, and the first label with room for it tells the day. */
function labels(plot, splits, step) {
  /** @type {number | undefined} */
  let told;
  return splits.map((time) => {
    const middle = plot.valToPos(time, "x");
    for (const before of [told, time]) {
      const text = tick(time, step, before),
        half = (text.length * LETTER) / 2;
      if (middle < half || middle + half > plot.width) continue;
      if (before === told) told = time;
      return text;
    }
    return "";
  });
}

/** How long a while is, in words. */
export const lasting = ({ from, to }) => age(to - from + 1);
