/** Rows on one axis of time: when a text waited, when its first token came, when it was done. Knows no server. */

import { el, say } from "./dom.js";
import { duration, durationMark } from "./format.js";
import { t } from "./i18n.js";
import { mark } from "./languages.js";

const SHORTEST_AXIS_S = 0.5;
const STEPS_S = [0.1, 0.2, 0.5, 1, 2, 5, 10, 20, 30, 60, 120];
const MOST_TICKS = 4;
const LAST_LABEL = 0.88; // of the axis: a label further on would hang over its end

/** The distance between ticks on an axis of so many seconds. */
export function tickStep(lengthS) {
  return STEPS_S.find((step) => lengthS / step <= MOST_TICKS) ?? STEPS_S.at(-1);
}

/** One text of a burst. Times are seconds since it was sent; null: not yet. */
export class Row {
  /** @param {import("./texts.js").BurstText} text */
  constructor({ text, language, long }, languageName, target) {
    this.long = long;
    this.firstS = null;
    this.doneS = null;
    this.failed = false;
    this.translation = el("p", { class: "translation" });
    mark(this.translation, target);
    this.wait = el("i", { class: "wait" });
    this.decode = el("i", { class: "decode" });
    this.times = el("p", { class: "times figure" });
    const said = el("span", {}, text);
    mark(said, language);
    const kind = el("span", { class: "visually-hidden" }, `${t(long ? "burst.long" : "burst.short", { language: languageName })} `);
    const chip = el("span", { class: "chip", "aria-hidden": "true" }, language);
    const track = el("div", { class: "track", "aria-hidden": "true" }, this.wait, this.decode);
    const source = el("p", { class: "text" }, kind, chip, said);
    this.element = el("li", { class: long ? "long" : "short" }, source, this.translation, track, this.times);
  }

  append(delta, atS) {
    this.firstS ??= atS;
    this.translation.append(delta);
    this.element.dataset.phase = "streaming";
    this.report();
  }

  finish(text, atS, doubtful = false) {
    this.firstS ??= atS;
    this.doneS = atS;
    say(this.translation, text);
    this.translation.toggleAttribute("data-doubtful", doubtful);
    this.element.dataset.phase = "done";
    this.report();
  }

  /** Its answer will not come. */
  drop() {
    if (this.doneS !== null) return;
    this.failed = true;
    this.element.dataset.phase = "failed";
    say(this.times, t("burst.not_done"));
  }

  report() {
    const said = [t("burst.first_at", { time: duration(this.firstS) }), ...(this.doneS === null ? [] : [t("burst.done_at", { time: duration(this.doneS) })])];
    const seen = (tag, seconds) => (seconds === null ? [] : [el(tag, { "aria-hidden": "true" }, duration(seconds))]);
    this.times.replaceChildren(hidden(said.join(", ")), ...seen("span", this.firstS), ...seen("b", this.doneS));
  }

  draw(nowS, axisS) {
    if (this.failed) return;
    const share = (seconds) => `${(100 * Math.max(seconds, 0)) / axisS}%`;
    const firstS = this.firstS ?? nowS;
    this.wait.style.width = share(firstS);
    this.decode.style.insetInlineStart = share(firstS);
    this.decode.style.width = share((this.doneS ?? nowS) - firstS);
  }
}

/** All rows and their axis, which grows with the time that they take. */
export class Timeline {
  constructor(list, axis) {
    this.list = list;
    this.axis = axis;
    this.rows = [];
    this.axisS = 0;
  }

  show(rows) {
    this.rows = rows;
    this.list.replaceChildren(...rows.map(({ element }) => element));
    this.scale(SHORTEST_AXIS_S);
  }

  draw(nowS) {
    if (nowS > this.axisS) this.scale(nowS * 1.25); // some margin, so that the scale moves seldom
    for (const row of this.rows) row.draw(nowS, this.axisS);
  }

  /** The last look: the axis ends where the last row does. */
  settle(endS) {
    this.scale(Math.max(endS * 1.02, SHORTEST_AXIS_S / 5));
    this.draw(endS);
  }

  scale(axisS) {
    this.axisS = axisS;
    const step = tickStep(axisS);
    const ticks = Array.from({ length: Math.floor(axisS / step) + 1 }, (_, at) => {
      const share = (at * step) / axisS;
      const tick = el("span", {}, share > LAST_LABEL ? "" : durationMark(at * step));
      tick.style.insetInlineStart = `${100 * share}%`;
      return tick;
    });
    this.axis.replaceChildren(...ticks);
    this.list.style.setProperty("--tick", `${(100 * step) / axisS}%`);
  }
}

const hidden = (text) => el("span", { class: "visually-hidden" }, text);
