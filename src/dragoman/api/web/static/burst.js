/** The button that sends 25 texts in one call, and what comes of each. Knows the server and its languages. */

import { byId, say, stillness } from "./dom.js";
import { fault, throwUnknown } from "./faults.js";
import { duration } from "./format.js";
import { t } from "./i18n.js";
import * as server from "./server.js";
import { TEXTS, drawTexts } from "./texts.js";
import { Row, Timeline } from "./timeline.js";
import { isDoubtful } from "./translator.js";

const STILL_FRAME_MS = 500; // for readers who want little motion

export class Burst {
  /**
   * @param {import("./languages.js").Languages} languages
   * @param {import("./picker.js").Picker} picker of targets
   * @param {Record<string, Record<string, string>[]>} topics
   * @param {(busy: boolean) => void} onBusy
   */
  constructor(languages, picker, topics, onBusy) {
    this.languages = languages;
    this.picker = picker;
    this.topics = topics;
    this.onBusy = onBusy;
    this.button = byId("send");
    this.result = byId("burst-result");
    this.engineLoad = byId("burst-load");
    this.timeline = new Timeline(byId("burst-rows"), byId("burst-axis"));
    this.running = null;
    this.spent = false;
    this.button.addEventListener("click", () => (this.running ? this.running.abort() : this.send()));
    picker.addEventListener("change", () => this.running || this.load());
    this.load();
  }

  /** Lay new texts ready. */
  load() {
    this.target = this.picker.value;
    this.texts = drawTexts(this.topics, this.languages, this.target);
    this.spent = false;
    this.button.disabled = !this.texts.length;
    const name = this.languages.name(this.target);
    say(this.result, this.texts.length ? "" : t("burst.no_sentences", { language: name }));
    this.timeline.show(this.texts.map((text) => new Row(text, this.languages.name(text.language), this.target)));
  }

  async send() {
    if (this.spent || this.target !== this.picker.value) this.load();
    this.spent = true;
    this.begin();
    const frames = this.animate();
    try {
      await this.receive(this.running.signal);
      this.conclude();
    } catch (error) {
      this.fail(error);
    } finally {
      frames.abort();
      this.end();
    }
  }

  begin() {
    this.beganMs = performance.now();
    this.running = new AbortController();
    this.onBusy(true);
    say(this.button, t("burst.stop"));
    say(this.result, "");
  }

  end() {
    this.running = null;
    this.onBusy(false);
    say(this.button, t("burst.send_more", { count: TEXTS }));
    say(this.engineLoad, "");
    for (const row of this.timeline.rows) row.drop();
    this.timeline.settle(this.lastS());
  }

  nowS() {
    return (performance.now() - this.beganMs) / 1000;
  }

  lastS() {
    return Math.max(0, ...this.timeline.rows.map(({ doneS, firstS }) => doneS ?? firstS ?? 0));
  }

  async receive(signal) {
    const call = { text: this.texts.map(({ text }) => text), target: this.target };
    for await (const { index, delta, translation } of server.translate(call, signal)) {
      const row = this.timeline.rows[index];
      if (delta) row.append(delta, this.nowS());
      else if (translation) row.finish(translation.text, this.nowS(), isDoubtful(translation));
    }
  }

  conclude() {
    const rows = this.timeline.rows;
    const long = rows.filter((row) => row.long);
    const short = rows.filter((row) => !row.long);
    const firstLongS = Math.min(...long.map(({ doneS }) => doneS));
    const ahead = short.filter(({ doneS }) => doneS < firstLongS).length;
    const took = t("burst.took", { count: rows.length, time: duration(this.lastS()) });
    say(this.result, `${took} ${t("burst.ahead", { ahead, count: short.length })}`);
  }

  fail(error) {
    const stopped = this.running.signal.aborted;
    this.result.replaceChildren(...(stopped ? [t("burst.stopped")] : fault(error)));
    if (!stopped) throwUnknown(error);
  }

  /** Draw until aborted. */
  animate() {
    const stop = new AbortController();
    const frame = () => {
      if (stop.signal.aborted) return;
      this.timeline.draw(this.nowS());
      if (stillness()) setTimeout(frame, STILL_FRAME_MS);
      else requestAnimationFrame(frame);
    };
    frame();
    return stop;
  }

  /** What the engine has to do now, beside the button: on a small screen the slots are out of sight. */
  watch({ engine: { running, waiting } }) {
    say(this.engineLoad, this.running ? t("burst.load", { running, waiting }) : "");
  }
}
