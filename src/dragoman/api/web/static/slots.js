/**
 * The engine's slots: a square each, filled while a sequence runs in one, and the sequences that wait for one.
 * The engine does not say which slot is whose, so they fill from the first on. Beyond 128 slots: one bar.
 */

import { byId, el, say } from "./dom.js";
import { count } from "./format.js";
import { t } from "./i18n.js";

const MOST_SQUARES = 128;
const FEW = 16; // fit one row, large
const MOST_WAITING = 48;

export class Slots {
  constructor() {
    this.row = byId("slots");
    this.queue = byId("queue");
    this.slots = -1;
    this.squares = [];
  }

  draw({ slots, running, waiting, peak }) {
    if (slots !== this.slots) this.build(slots);
    if (this.squares.length) this.fill(running, peak);
    else this.level(running, peak);
    this.line(waiting);
    say(byId("slots-figure"), t("engine.slots_figure", { running, slots, waiting }));
    this.row.setAttribute("aria-label", t("engine.slots_words", { running, slots, peak }));
  }

  build(slots) {
    this.slots = slots;
    const squares = slots <= MOST_SQUARES;
    this.row.className = squares ? (slots <= FEW ? "squares few" : "squares") : "bar";
    this.squares = squares ? Array.from({ length: slots }, () => el("i")) : [];
    this.fillBar = el("i", { class: "fill" });
    this.peakBar = el("i", { class: "peak" });
    this.row.replaceChildren(...(squares ? this.squares : [this.fillBar, this.peakBar]));
  }

  fill(running, peak) {
    this.squares.forEach((square, at) => {
      square.classList.toggle("on", at < running);
      square.classList.toggle("peak", at < peak);
    });
  }

  level(running, peak) {
    const share = (number) => `${(100 * Math.min(number / this.slots, 1)).toFixed(2)}%`;
    this.fillBar.style.width = share(running);
    this.peakBar.style.insetInlineStart = share(peak);
  }

  line(waiting) {
    const shown = Math.min(waiting, MOST_WAITING);
    if (this.queue.dataset.shown === String(waiting)) return;
    this.queue.dataset.shown = String(waiting);
    const more = waiting > shown ? [el("span", { class: "figure" }, `+${count(waiting - shown)}`)] : [];
    this.queue.replaceChildren(...Array.from({ length: shown }, () => el("i")), ...more);
  }
}
