/**
 * The translation box: types in, streams out. One request at a time: a new one cancels the one before.
 * Knows the pair of languages, the options and the server; nothing of the engine.
 */

import { Alignment } from "./alignment.js";
import { Alternatives } from "./alternatives.js";
import { byId, el, say } from "./dom.js";
import { remark } from "./examples.js";
import { showFault, warningOf } from "./faults.js";
import { ago, certainty } from "./format.js";
import { t } from "./i18n.js";
import { mark } from "./languages.js";
import * as server from "./server.js";

const PAUSE_S = 0.4; // of typing, before it is worth a request
const SHORTEST_RETRY_S = 1;
const KEPT = "dragoman.text"; // in the tab's store, while the page is not open in it

export class Translator {
  /**
   * @param {import("./languages.js").LanguagePair} pair
   * @param {import("./options.js").TextOptions} options
   * @param {{onDone: (past: import("./past.js").Past) => void}} listener told of each text that is translated
   */
  constructor(pair, options, { onDone }) {
    this.pair = pair;
    this.onDone = onDone;
    this.options = options;
    this.source = byId("source");
    this.output = byId("output");
    this.alignment = new Alignment(this.source, this.output);
    this.notes = byId("notes");
    this.measured = byId("measured");
    this.copyButton = byId("copy");
    this.alternatives = new Alternatives({ onChosen: (one) => this.choose(one), onFault: (error) => this.blame(error) });
    this.clearButton = byId("clear");
    this.stopButton = byId("stop");
    this.running = null;
    this.timer = 0;
    this.scrolled = this.source; // which of both the reader scrolls
    this.listen();
  }

  listen() {
    this.source.addEventListener("input", (event) => event.isComposing || this.soon());
    this.source.addEventListener("compositionend", () => this.soon());
    this.source.addEventListener("keydown", (event) => {
      if (event.key === "Enter" && (event.ctrlKey || event.metaKey) && !event.isComposing) this.atOnce(event);
    });
    byId("translate").addEventListener("submit", (event) => this.atOnce(event));
    this.copyButton.addEventListener("click", () => this.copy());
    this.clearButton.addEventListener("click", () => this.empty());
    this.stopButton.addEventListener("click", () => this.stop());
    this.scrollTogether(this.source, this.output);
    this.scrollTogether(this.output, this.source);
    addEventListener("pagehide", () => keepText(this.source.value));
    this.source.value ||= keptText();
    this.pair.addEventListener("swap", () => this.exchange());
    this.pair.addEventListener("change", () => this.start());
    this.options.addEventListener("change", () => this.start());
    this.options.addEventListener("input", () => this.soon());
  }

  /** Scroll the other one where the reader scrolls this one. What it does by itself, when it gets another text, is no scrolling. */
  scrollTogether(one, other) {
    for (const act of ["wheel", "touchstart", "pointerdown", "keydown"]) one.addEventListener(act, () => (this.scrolled = one), { passive: true });
    one.addEventListener("scroll", () => this.scrolled === one && follow(other, one));
  }

  /** Put a text in the box and translate it; the browser's undo brings back what was there. */
  show(text) {
    replaceText(this.source, text);
    this.start();
  }

  atOnce(event) {
    event.preventDefault();
    this.start();
  }

  soon() {
    if (this.running) this.output.dataset.phase = "waiting";
    this.halt();
    this.describeSource();
    this.timer = setTimeout(() => this.start(), this.source.value.trim() ? PAUSE_S * 1000 : 0);
  }

  /** What was translated becomes the source; what is being translated is dropped. */
  exchange() {
    const whole = this.output.dataset.phase === "done";
    if (whole && this.output.textContent) this.source.value = this.output.textContent;
  }

  halt() {
    clearTimeout(this.timer);
    this.running?.abort();
    this.running = null;
    this.stopButton.hidden = true;
    this.alignment.clear();
    this.alternatives.clear();
  }

  /** End the translation; what came of it stays. */
  stop() {
    this.halt();
    this.output.dataset.phase = "stopped";
    say(this.measured, this.output.textContent && t("translate.stopped"));
    this.copyButton.disabled = !this.output.textContent;
    this.focus();
  }

  /** Focus the box; on a phone the translation: the keyboard that a box brings would cover it. */
  focus() {
    (matchMedia("(hover: none)").matches ? this.output : this.source).focus();
  }

  /** Begin with an empty box. */
  empty() {
    this.show("");
    this.source.focus();
  }

  async start() {
    this.halt();
    this.describeSource();
    this.report();
    const text = this.source.value;
    if (!text.trim() || !this.pair.target) return this.clear();
    const job = (this.running = new AbortController());
    if (this.output.dataset.phase === "stopped") say(this.measured, "");
    this.output.dataset.phase = "waiting";
    this.stopButton.hidden = false;
    try {
      const { target } = this.pair;
      const fields = this.options.fields;
      const source = this.pair.source || (typeof fields.glossary === "string" ? await this.detect(text, job.signal) : "");
      await this.insist({ text, source, target, ...fields }, job.signal);
    } catch (error) {
      if (!job.signal.aborted) this.fail(error);
    }
  }

  /** The language of a text, or "" of one that the model does not have: a stored glossary has entries by pair of languages. */
  async detect(text, signal) {
    const tag = await server.detect(text, signal);
    const { languages } = this.pair;
    return languages.has(tag) ? tag : ([...languages.keys()].find((code) => code.split("-")[0] === tag.split("-")[0]) ?? "");
  }

  clear() {
    this.stopButton.hidden = true;
    this.pair.detect("");
    this.output.removeAttribute("data-doubtful");
    this.output.replaceChildren();
    delete this.output.dataset.phase;
    say(this.measured, "");
    this.copyButton.disabled = true;
  }

  /** Translate; while the server cannot take it, wait until it can. */
  async insist(request, signal) {
    for (;;) {
      try {
        return await this.stream(request, signal);
      } catch (error) {
        if (error.unavailable) await this.waitForServer(error, signal);
        else if (error.queueFull) await this.waitInLine(error, signal);
        else throw error;
      }
      this.report();
    }
  }

  async stream(request, signal) {
    let begun = false;
    for await (const event of server.translate(request, signal)) {
      if (event.delta) {
        if (!begun) this.begin(request.target);
        begun = true;
        this.output.append(event.delta);
      } else if (event.translation) {
        this.finish(event.translation, request);
      }
    }
  }

  begin(target) {
    this.output.removeAttribute("data-doubtful");
    mark(this.output, target);
    this.output.replaceChildren();
    this.output.dataset.phase = "streaming";
  }

  finish(translation, request) {
    translation.detected ||= !this.pair.source; // where it was detected before, for a glossary
    mark(this.output, translation.finish_reason === "unchanged" ? known(translation.source) : request.target);
    this.present(translation);
    this.output.dataset.phase = "done";
    this.stopButton.hidden = true;
    this.copyButton.disabled = false;
    this.pair.detect(translation.detected ? translation.source : "");
    if (this.pair.avoid(translation.source)) return; // it is translated again
    mark(this.source, request.source || known(translation.source));
    this.measure(translation);
    this.report(...this.remarks(translation), ...shown(translation, request));
    this.announce(translation.text, request.target);
    this.alignment.show(known(translation.source), request.target);
    this.alternatives.offer(request, translation);
    this.onDone({ text: request.text, source: request.source || known(translation.source), target: request.target, translation: translation.text });
  }

  /** Show another translation in place of this one. */
  choose(translation) {
    this.present(translation);
    this.alignment.show(this.source.lang, this.pair.target);
    this.report(...this.remarks(translation));
    this.announce(translation.text, this.pair.target);
  }

  /** Show a text with what its warnings name underlined; all of it where the model was unsure and nothing is named. */
  present({ text, warnings }) {
    const characters = [...text];
    const places = warnings.flatMap(({ places }) => places ?? []).filter(({ start, end }) => end - start < characters.length);
    this.output.toggleAttribute("data-doubtful", isDoubtful({ warnings }) && !places.length);
    if (places.length) this.output.replaceChildren(...underlined(characters, places));
    else say(this.output, text);
  }

  measure(translation) {
    const found = translation.detected ? this.detection(translation) : "";
    say(this.measured, [found, certainty(translation)].filter(Boolean).join(" · "));
  }

  detection({ source }) {
    return known(source) ? t("translate.detected", { language: this.pair.languages.name(source) }) : t("translate.nothing_detected");
  }

  remarks(translation) {
    const remarks = translation.warnings.map((warning) => warningOf(warning, this.pair.languages.name(translation.source)));
    if (translation.finish_reason === "unchanged" && !remarks.length) return [t("translate.unchanged")];
    return remarks;
  }

  announce(text, target) {
    const announcement = byId("announcement");
    mark(announcement, target);
    announcement.textContent = text;
  }

  async waitForServer(error, signal) {
    const beganMs = performance.now();
    const clock = this.showWithClock(`${error.sentence} ${t("translate.waits")}`);
    await server.untilReady(signal, () => say(clock, ` ${ago((performance.now() - beganMs) / 1000)}`));
  }

  async waitInLine(error, signal) {
    const clock = this.showWithClock(`${error.sentence} ${t("translate.retries")}`);
    for (let left = error.retryAfterS ?? SHORTEST_RETRY_S; left > 0; left -= 1) {
      say(clock, ` ${left} s`);
      await server.pause(1, signal);
    }
  }

  fail(error) {
    this.clear();
    this.blame(error);
  }

  blame(error) {
    const note = el("p");
    this.notes.replaceChildren(note);
    this.notes.dataset.kind = "error";
    showFault(note, error);
  }

  /** Remarks below the translation, texts or elements; none clears them. */
  report(...remarks) {
    delete this.notes.dataset.kind;
    this.notes.replaceChildren(...remarks.map((remark) => el("p", {}, remark)));
  }

  /** A remark with a place for a running clock, which is not read out. */
  showWithClock(remark) {
    const clock = el("span", { class: "figure", "aria-hidden": "true" });
    this.notes.replaceChildren(el("p", {}, remark, clock));
    return clock;
  }

  describeSource() {
    const characters = [...this.source.value].length;
    this.clearButton.hidden = !characters;
    say(byId("source-size"), characters ? t("count.characters", { count: characters }) : "");
    mark(this.source, this.pair.source);
  }

  async copy() {
    try {
      await copyText(this.output);
      say(this.copyButton, t("translate.copied"));
    } catch {
      say(this.copyButton, t("translate.not_allowed"));
    }
    setTimeout(() => say(this.copyButton, t("translate.copy")), 1500);
  }
}

function keepText(text) {
  try {
    if (text) sessionStorage.setItem(KEPT, text);
    else sessionStorage.removeItem(KEPT);
  } catch {
    // a full or forbidden store: the text is typed again
  }
}

/** The text that was kept, once. */
function keptText() {
  try {
    const text = sessionStorage.getItem(KEPT) ?? "";
    sessionStorage.removeItem(KEPT);
    return text;
  } catch {
    return "";
  }
}

/** Replace what is in a box as typing would, so that it can be undone; a phone has no keys for that, and would show its keyboard. */
function replaceText(box, text) {
  if (box.value && !matchMedia("(hover: none)").matches) {
    const { activeElement } = document;
    box.focus({ preventScroll: true });
    box.select();
    document.execCommand(text ? "insertText" : "delete", false, text);
    activeElement.focus({ preventScroll: true });
  }
  if (box.value !== text) box.value = text;
}

/** Scroll an element to the share of its height at which another one is. */
function follow(element, other) {
  const share = other.scrollTop / Math.max(other.scrollHeight - other.clientHeight, 1);
  element.scrollTop = share * (element.scrollHeight - element.clientHeight);
}

/** What there is to say of the examples that the model was shown. */
function shown(translation, { text, source, target }) {
  if (!translation.examples) return [];
  return [remark(translation.examples, { text, source: source || known(translation.source), target })];
}

/** The tag of a language; "" of one that could not be detected. */
function known(tag) {
  return tag === "und" ? "" : tag;
}

/** The parts of a text, those at places underlined; places count code points. */
function underlined(characters, places) {
  const parts = [];
  let at = 0;
  for (const { start, end } of [...places].sort((one, other) => one.start - other.start)) {
    if (end <= at) continue;
    const from = Math.max(start, at);
    parts.push(characters.slice(at, from).join(""), el("span", { "data-doubtful": "" }, characters.slice(from, end).join("")));
    at = end;
  }
  return [...parts, characters.slice(at).join("")];
}

/** Whether the server warns that the model was unsure. */
export function isDoubtful({ warnings }) {
  return warnings.some(({ code }) => code === "low_confidence");
}

/** The clipboard API exists on secure origins alone; a server on a local network is none, so there the selection is copied. */
export async function copyText(element) {
  if (navigator.clipboard) return navigator.clipboard.writeText(element.textContent);
  getSelection().selectAllChildren(element);
  if (!document.execCommand("copy")) throw new Error("copying was refused");
}
