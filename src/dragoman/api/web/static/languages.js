/** The languages of the server, and the choice of two: pickers and a swap, remembered in this browser. Knows no text. */

import { direction, languageName, locale, primary, t } from "./i18n.js";

const STORE = "dragoman.languages";
const RECENT = 3; // languages at the top of a menu

/** Mark an element's text as being in a language, or in one that is not known (""). */
export function mark(element, tag) {
  element.dir = tag ? direction(tag) : "auto";
  if (tag) element.lang = tag;
  else element.removeAttribute("lang");
}

/** What the server serves: entries of `GET /v1/languages` by their code. */
export class Languages extends Map {
  /** @param {{code: string, name: string, native_name: string, targets: string[]}[]} list */
  constructor(list = []) {
    super(list.map((one) => [one.code, one]));
  }

  /** What a language is called in the reader's, also one that the model does not have. */
  name(tag) {
    return languageName(tag) || this.get(tag)?.name || tag;
  }

  /** The same with its own name. */
  title(tag) {
    const [name, own] = [this.name(tag), this.get(tag)?.native_name];
    return own && own !== name ? `${name} · ${own}` : name;
  }

  /** `English → German` */
  direction({ source, target }) {
    return `${this.name(source)} → ${this.name(target)}`;
  }

  /** Whether the model translates so; a source that is yet to be detected ("") may turn out right. */
  serves(source, target) {
    return !source || Boolean(this.get(source)?.targets.includes(target));
  }

  /** A choice of a picker for each, by name, or for those with these codes. @returns {import("./picker.js").Choice[]} */
  choices(codes = null) {
    const byName = () => [...this.keys()].sort((one, other) => this.name(one).localeCompare(this.name(other), locale));
    const found = (code) => [this.name(code), this.get(code).native_name ?? "", this.get(code).name, code];
    return (codes ?? byName()).map((code) => ({ value: code, title: this.title(code), found: found(code) }));
  }

  /** The target that was chosen last time, or else the reader's first language that the model has; not `other`. */
  firstTarget(storage, other = "") {
    const { target } = remembered(storage);
    const codes = [...this.keys()].filter((code) => code !== other && this.serves(other, code));
    const own = navigator.languages.map((tag) => codes.find((code) => primary(code) === primary(tag)));
    return [target, ...own, ...codes].find((code) => codes.includes(code)) ?? "";
  }
}

function remembered(storage) {
  try {
    return JSON.parse(storage?.getItem(STORE) ?? "{}") ?? {};
  } catch {
    return {}; // somebody else's value under our key
  }
}

/** Dispatches `change` when the reader chose something else. `source` is "" for "detect". */
export class LanguagePair extends EventTarget {
  /**
   * @param {{source: import("./picker.js").Picker, target: import("./picker.js").Picker, swap: HTMLButtonElement}} controls
   * @param {Storage | null} storage null where the browser gives none
   */
  constructor(controls, storage) {
    super();
    this.controls = controls;
    this.storage = storage;
    this.languages = new Languages();
    this.detected = "";
    this.before = { source: "", target: "" };
    this.isChosen = false; // the target, by the reader, now or last time
    controls.source.addEventListener("change", () => this.chosen("source", "target"));
    controls.target.addEventListener("change", () => this.chosen("target", "source"));
    controls.swap.addEventListener("click", () => this.swap());
  }

  get source() {
    return this.controls.source.value;
  }

  get target() {
    return this.controls.target.value;
  }

  /** Offer what the server serves, and choose what was chosen last time, or what suits this reader. @param {Languages} languages */
  fill(languages) {
    this.languages = languages;
    this.arrange();
    const { source } = remembered(this.storage);
    this.controls.source.value = languages.has(source) ? source : "";
    this.controls.target.value = languages.firstTarget(this.storage);
    this.isChosen = this.target === remembered(this.storage).target;
    this.settle("target");
  }

  /** Pickers have first what was chosen lately. */
  arrange() {
    const detect = { value: "", title: t("translate.detect"), found: [t("translate.detect")] };
    const all = { label: t("languages.all"), choices: this.languages.choices() };
    for (const side of ["source", "target"]) {
      const recent = { label: t("languages.recent"), choices: this.languages.choices(this.recent(side)) };
      this.controls[side].fill([...(side === "source" ? [{ label: "", choices: [detect] }] : []), recent, all]);
    }
  }

  /** The languages that were chosen lately for a side, the last one first. */
  recent(side) {
    const list = remembered(this.storage).recent?.[side];
    return Array.isArray(list) ? list.filter((code) => this.languages.has(code)) : [];
  }

  /** Take a pair as the reader's choice; one that the model does not serve becomes one that it does. */
  choose(source, target) {
    this.controls.source.value = this.languages.has(source) ? source : "";
    if (this.languages.has(target)) this.controls.target.value = target;
    this.isChosen = true;
    this.settle("target");
    this.announce();
  }

  /** The language that an unnamed source turned out to be in; "" when it is not known. */
  detect(tag) {
    this.detected = this.languages.has(tag) ? tag : "";
    this.settleSwap();
  }

  /** A text turned out to be in the target's language, which the reader did not choose: take another one; whether that was so. */
  avoid(source) {
    if (this.isChosen || source !== this.target) return false;
    const other = this.languages.firstTarget(null, source);
    if (!other) return false;
    this.controls.target.value = other;
    this.isChosen = true;
    this.settle("target");
    this.dispatchEvent(new Event("change"));
    return true;
  }

  /** One side was chosen: where both would be the same language, the other takes what this one had. */
  chosen(side, other) {
    if (this.source === this.target) this.controls[other].value = this.before[side];
    this.isChosen = true;
    this.settle(side);
    this.announce();
  }

  /** Make the pair one that the model serves, leaving the side that was just chosen. */
  settle(kept) {
    this.allow();
    if (!this.target || !this.languages.serves(this.source, this.target) || this.source === this.target) {
      if (kept === "target" && this.target) this.controls.source.value = "";
      else this.controls.target.value = [...this.languages.keys()].find((tag) => this.languages.serves(this.source, tag)) ?? "";
    }
    this.before = { source: this.source, target: this.target };
    this.settleSwap();
  }

  /** Only targets that the source can be translated into can be chosen. */
  allow() {
    this.controls.target.allow((target) => this.reaches(target));
  }

  /** The source's own language stays on offer: choosing it swaps. */
  reaches(target) {
    return target === this.source || this.languages.serves(this.source, target);
  }

  settleSwap() {
    const from = this.source || this.detected;
    this.controls.swap.disabled = !from || from === this.target || !this.languages.serves(this.target, from);
  }

  swap() {
    const from = this.source || this.detected;
    [this.controls.source.value, this.controls.target.value] = [this.target, from];
    this.settle("source");
    this.dispatchEvent(new Event("swap"));
    this.announce();
  }

  announce() {
    this.remember();
    this.dispatchEvent(new Event("change"));
  }

  remember() {
    const { source, target } = this;
    const newest = (side, code) => [...new Set([code, ...this.recent(side)])].filter(Boolean).slice(0, RECENT);
    const recent = { source: newest("source", source), target: newest("target", target) };
    try {
      this.storage?.setItem(STORE, JSON.stringify({ source, target, recent }));
    } catch {
      // a full or forbidden store: the page works without
    }
    this.arrange();
    this.allow();
  }
}

/** The browser's store, or null where it is forbidden. */
export function browserStorage() {
  try {
    return window.localStorage;
  } catch {
    return null;
  }
}
