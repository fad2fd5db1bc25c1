/**
 * A small time chart in SVG: lines, or areas stacked on each other, over the last minutes.
 * Knows samples by `History` and nothing of where they come from. Colours are the style sheet's.
 */

import { el, say, svg } from "./dom.js";
import { ago } from "./format.js";
import { t } from "./i18n.js";

const HEIGHT = 108;
const PLOT = { left: 44, right: 2, top: 8, bottom: 18 };
const TICKS_S = [15, 30, 60];
const MOST_TICKS = 5;
const STEPS = [1, 2, 2.5, 5, 10];
const WHOLE_STEPS = [1, 2, 4, 6, 10]; // even ones, so that the middle is whole too
const LEAST_WHOLE = 4;

/** The least round number that is not below `highest`; of whole numbers where `whole`. */
export function roundTop(highest, whole = false) {
  if (whole && highest <= LEAST_WHOLE) return LEAST_WHOLE;
  if (highest <= 0) return 1;
  const power = 10 ** Math.floor(Math.log10(highest));
  const tops = (whole ? WHOLE_STEPS : STEPS).map((step) => step * power);
  return tops.find((top) => top >= highest * (1 - 1e-9)); // but for the last bit
}

/**
 * @typedef {{key: string, name: string, className: string}} Series
 * @typedef {{title: string, series: Series[], format: (n: number) => string, mark: (n: number) => string,
 *   stacked?: boolean, whole?: boolean}} Spec
 */
export class Chart {
  /** @param {Spec} spec @param {(atS: number | null) => void} onPoint the reader points at a time, or leaves */
  constructor(spec, onPoint) {
    this.spec = spec;
    this.values = spec.series.map(() => el("b", { class: "figure" }));
    this.when = el("span", { class: "figure when" });
    this.plot = svg("svg", { role: "img", height: HEIGHT });
    this.figure = el("figure", { class: "chart" }, this.caption(), this.plot);
    this.plot.addEventListener("pointermove", (event) => onPoint(this.timeAt(event)));
    this.plot.addEventListener("pointerleave", () => onPoint(null));
  }

  caption() {
    const keys = this.spec.series.map((one, at) =>
      el("span", { class: `key ${one.className}` }, `${one.name} `, this.values[at]),
    );
    return el("figcaption", {}, el("span", { class: "title" }, this.spec.title), ...keys, this.when);
  }

  /** Draw the samples up to `nowS`, with the values at `cursorS` (null: the latest) in the caption. */
  draw(history, nowS, cursorS) {
    this.nowS = nowS;
    this.windowS = history.windowS(nowS);
    this.width = this.plot.clientWidth;
    this.top = roundTop(this.highest(history), this.spec.whole);
    const sample = cursorS === null ? history.latest : history.near(cursorS);
    this.plot.setAttribute("aria-label", this.inWords(history));
    this.plot.replaceChildren(...this.grid(), ...this.shapes(history), ...this.cursor(cursorS === null ? null : sample));
    this.spec.series.forEach(({ key }, at) => say(this.values[at], this.spec.format(sample?.[key])));
    say(this.when, cursorS === null || !sample ? "" : t("engine.at_time", { time: ago(nowS - sample.atS) }));
  }

  highest(history) {
    const keys = this.spec.series.map(({ key }) => key);
    return this.spec.stacked ? history.highest(keys) : Math.max(...keys.map((key) => history.highest([key])));
  }

  inWords(history) {
    const parts = this.spec.series.map(({ key, name }) => {
      const now = this.spec.format(history.latest?.[key]);
      return t("engine.chart_series", { name, now, most: this.spec.format(history.highest([key])) });
    });
    return t("engine.chart", { title: this.spec.title, series: parts.join("; ") });
  }

  x(atS) {
    const inner = this.width - PLOT.left - PLOT.right;
    return PLOT.left + inner * (1 - (this.nowS - atS) / this.windowS);
  }

  y(value) {
    const inner = HEIGHT - PLOT.top - PLOT.bottom;
    return PLOT.top + inner * (1 - value / this.top);
  }

  timeAt(event) {
    const inner = this.width - PLOT.left - PLOT.right;
    const share = (event.clientX - this.plot.getBoundingClientRect().left - PLOT.left) / inner;
    return this.nowS - this.windowS * (1 - share);
  }

  grid() {
    const levels = [0, this.top / 2, this.top].flatMap((value) => [
      line("grid", PLOT.left, this.y(value), this.width - PLOT.right, this.y(value)),
      label(PLOT.left - 6, this.y(value) + 3.5, "end", this.spec.mark(value)),
    ]);
    return [...levels, ...this.times()];
  }

  times() {
    const step = TICKS_S.find((seconds) => this.windowS / seconds <= MOST_TICKS) ?? TICKS_S.at(-1);
    return Array.from({ length: Math.floor(this.windowS / step) + 1 }, (_, at) => {
      const x = this.x(this.nowS - at * step);
      const words = at ? `−${ago(at * step)}` : t("engine.now");
      const anchor = at ? (x < PLOT.left + 24 ? "start" : "middle") : "end";
      return [line("tick", x, this.y(0), x, this.y(0) + 4), label(x, HEIGHT - 3, anchor, words)];
    }).flat();
  }

  shapes(history) {
    const { series, stacked } = this.spec;
    return series.flatMap((one, at) => {
      const below = stacked ? series.slice(0, at).map(({ key }) => key) : [];
      return history.stretches(one.key).flatMap((stretch) => this.shape(stretch, one, below, stacked));
    });
  }

  shape(stretch, { key, className }, below, filled) {
    const floor = (sample) => below.reduce((sum, other) => sum + (sample[other] ?? 0), 0);
    const upper = stretch.map((sample) => this.point(sample, floor(sample) + sample[key]));
    const edge = svg("path", { class: `line ${className}`, d: `M${upper.join("L")}` });
    if (!filled) return [edge];
    const lower = stretch.map((sample) => this.point(sample, floor(sample))).reverse();
    return [svg("path", { class: `area ${className}`, d: `M${[...upper, ...lower].join("L")}Z` }), edge];
  }

  point(sample, value) {
    const x = Math.max(this.x(sample.atS), PLOT.left);
    return `${x.toFixed(1)},${this.y(value).toFixed(1)}`;
  }

  cursor(sample) {
    if (!sample) return [];
    const x = this.x(sample.atS);
    return [line("cursor", x, PLOT.top, x, this.y(0))];
  }
}

const line = (name, x1, y1, x2, y2) => svg("line", { class: name, x1, y1, x2, y2 });

const label = (x, y, anchor, text) => svg("text", { x, y, "text-anchor": anchor }, text);
