/** The choice of languages: two menus and a swap, remembered in this browser. Knows no text and no translation. */

import { el } from "./dom.js";

const STORE = "dragoman.languages";
const RTL_SCRIPTS = new Set(["Adlm", "Arab", "Aran", "Hebr", "Mand", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"]);

/** `rtl` or `ltr`, by the script that the language is written in. */
export function direction(tag) {
  try {
    return RTL_SCRIPTS.has(new Intl.Locale(tag).maximize().script) ? "rtl" : "ltr";
  } catch {
    return "ltr"; // the tag is the server's; one that the browser cannot read is no reason to show nothing
  }
}

/** Mark an element's text as being in a language, or in one that is not known (""). */
export function mark(element, tag) {
  element.dir = tag ? direction(tag) : "auto";
  if (tag) element.lang = tag;
  else element.removeAttribute("lang");
}

const title = ({ name, native_name: own }) => (own && own !== name ? `${name} · ${own}` : name);

/** Dispatches `change` when the reader chose something else. `source` is "" for "detect". */
export class LanguagePair extends EventTarget {
  /**
   * @param {{source: HTMLSelectElement, target: HTMLSelectElement, swap: HTMLButtonElement}} controls
   * @param {Storage | null} storage null where the browser gives none
   */
  constructor(controls, storage) {
    super();
    this.controls = controls;
    this.storage = storage;
    this.languages = new Map();
    this.detected = "";
    this.before = { source: "", target: "" };
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

  name(tag) {
    return this.languages.get(tag)?.name ?? tag;
  }

  /** Whether the model translates so; a source that is yet to be detected may turn out right. */
  serves(source, target) {
    return !source || Boolean(this.languages.get(source)?.targets.includes(target));
  }

  /** Offer what the server serves, and choose what was chosen last time, or what suits this reader. */
  fill(languages) {
    this.languages = new Map(languages.map((one) => [one.code, one]));
    const byName = [...languages].sort((a, b) => a.name.localeCompare(b.name, "en"));
    const options = () => byName.map((one) => el("option", { value: one.code }, title(one)));
    this.controls.source.append(...options());
    this.controls.target.append(...options());
    const { source, target } = this.remembered();
    this.controls.source.value = this.languages.has(source) ? source : "";
    this.controls.target.value = this.languages.has(target) ? target : this.suitable();
    this.settle("target");
  }

  suitable() {
    const codes = [...this.languages.keys()];
    const primary = (tag) => tag.split("-")[0].toLowerCase();
    const own = codes.find((code) => primary(code) === primary(navigator.language ?? ""));
    return own && primary(own) !== "en" ? own : (codes.find((code) => primary(code) !== "en") ?? codes[0] ?? "");
  }

  /** The language that an unnamed source turned out to be in; "" when it is not known. */
  detect(tag) {
    this.detected = this.languages.has(tag) ? tag : "";
    this.settleSwap();
  }

  /** One side was chosen: where both would be the same language, the other takes what this one had. */
  chosen(side, other) {
    if (this.source === this.target) this.controls[other].value = this.before[side];
    this.settle(side);
    this.announce();
  }

  /** Make the pair one that the model serves, leaving the side that was just chosen. */
  settle(kept) {
    for (const option of this.controls.target.options) option.disabled = !this.reaches(option.value);
    if (!this.target || !this.serves(this.source, this.target) || this.source === this.target) {
      if (kept === "target" && this.target) this.controls.source.value = "";
      else this.controls.target.value = [...this.languages.keys()].find((tag) => this.serves(this.source, tag)) ?? "";
    }
    this.before = { source: this.source, target: this.target };
    this.settleSwap();
  }

  /** The source's own language stays on offer: choosing it swaps. */
  reaches(target) {
    return target === this.source || this.serves(this.source, target);
  }

  settleSwap() {
    const from = this.source || this.detected;
    this.controls.swap.disabled = !from || from === this.target || !this.serves(this.target, from);
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

  remembered() {
    try {
      return JSON.parse(this.storage?.getItem(STORE) ?? "{}") ?? {};
    } catch {
      return {}; // somebody else's value under our key
    }
  }

  remember() {
    try {
      this.storage?.setItem(STORE, JSON.stringify({ source: this.source, target: this.target }));
    } catch {
      // a full or forbidden store: the page works without
    }
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
