/**
 * A language picker: a box in which one types to find a language, by its name in the reader's language, by its own, by the
 * English one, or by its code; and the list of those found (the combobox pattern of the ARIA Authoring Practices).
 */

import { el } from "./dom.js";
import { t } from "./i18n.js";

let lists = 0;

/** Letters without accents and case, so that "francais" finds "français". */
const folded = (text) => text.normalize("NFKD").replace(/\p{M}/gu, "").toLocaleLowerCase();

/** @typedef {{value: string, title: string, found: string[]}} Choice `found`: what it is found by */
/** @typedef {{label: string, choices: Choice[]}} Group of choices; without a label they stand alone */

/** Dispatches `change` when the reader chose something else. */
export class Picker extends EventTarget {
  /** @param {HTMLInputElement} box with a label */
  constructor(box) {
    super();
    this.box = box;
    this.groups = [];
    this.chosen = "";
    this.disabledValues = new Set();
    this.typed = "";
    this.options = []; // those that are listed
    this.active = -1; // which of them
    this.list = el("div", { class: "choices-list", role: "listbox", id: `choices-${++lists}`, hidden: "", tabindex: "-1" });
    this.status = el("span", { class: "visually-hidden", role: "status" });
    for (const [name, value] of Object.entries({ role: "combobox", type: "text", autocomplete: "off", spellcheck: "false", "aria-autocomplete": "list", "aria-expanded": "false", "aria-controls": this.list.id })) {
      box.setAttribute(name, value);
    }
    if (box.labels[0]) this.list.setAttribute("aria-label", box.labels[0].textContent.trim());
    box.after(this.list, this.status);
    box.addEventListener("focus", () => box.select());
    for (const type of ["mousedown", "click"]) box.addEventListener(type, () => this.isOpen || this.open()); // a click alone is assistive technology's
    box.addEventListener("input", (event) => event.isComposing || this.open(box.value));
    box.addEventListener("compositionend", () => this.open(box.value));
    box.addEventListener("keydown", (event) => this.pressed(event));
    box.addEventListener("blur", () => this.close());
    for (const type of ["pointerdown", "mousedown"]) this.list.addEventListener(type, (event) => event.preventDefault()); // the focus stays in the box
    this.list.addEventListener("click", ({ target }) => this.take(this.options.indexOf(target.closest("[role=option]"))));
  }

  get value() {
    return this.chosen;
  }

  /** What is being typed stays: the list shows what is chosen now. */
  set value(value) {
    this.chosen = this.all.some((one) => one.value === value) ? value : "";
    if (this.isOpen) this.open(this.typed);
    else this.close();
  }

  focus() {
    this.box.focus();
  }

  get all() {
    return this.groups.flatMap(({ choices }) => choices);
  }

  get isOpen() {
    return !this.list.hidden;
  }

  /** Offer these; what was chosen stays, if it is among them. @param {Group[]} groups */
  fill(groups) {
    this.groups = groups;
    if (this.isOpen) this.open(this.typed);
    else this.value = this.chosen;
  }

  /** Values that cannot be chosen. @param {(value: string) => boolean} isAllowed */
  allow(isAllowed) {
    this.disabledValues = new Set(this.all.map(({ value }) => value).filter((value) => !isAllowed(value)));
  }

  /** List what is found by some letters; all without. */
  open(typed = "") {
    this.typed = typed;
    const wanted = folded(typed.trim());
    const seen = new Set();
    const finds = ({ value, found }) => !wanted || (!seen.has(value) && seen.add(value) && found.some((one) => folded(one).split(/[\s()·,-]+/).some((word) => word.startsWith(wanted)) || folded(one).startsWith(wanted)));
    this.options = [];
    const shown = this.groups.map(({ label, choices }) => ({ label, options: choices.filter(finds).map((one) => this.option(one)) })).filter(({ options }) => options.length);
    const group = ({ label, options }) => (label && !wanted ? [el("div", { role: "group", "aria-label": label }, el("div", { class: "choices-title", "aria-hidden": "true" }, label), ...options)] : options);
    this.list.replaceChildren(...shown.flatMap(group));
    if (!this.options.length) this.list.replaceChildren(el("div", { class: "choices-title" }, t("languages.none")));
    this.list.hidden = false;
    this.box.setAttribute("aria-expanded", "true");
    this.status.textContent = wanted ? (this.options.length ? t("languages.found", { count: this.options.length }) : t("languages.none")) : "";
    const current = this.options.findLastIndex((one) => one.dataset.value === this.chosen);
    this.activate(wanted ? this.next(-1, 1) : current);
  }

  option({ value, title }) {
    const option = el("div", { role: "option", id: `${this.list.id}-${this.options.length}`, "data-value": value, "aria-selected": String(value === this.chosen) }, title);
    if (this.disabledValues.has(value)) option.setAttribute("aria-disabled", "true");
    this.options.push(option);
    return option;
  }

  close() {
    this.list.hidden = true;
    this.list.replaceChildren();
    this.options = [];
    this.active = -1;
    this.status.textContent = "";
    this.box.setAttribute("aria-expanded", "false");
    this.box.removeAttribute("aria-activedescendant");
    this.box.dataset.value = this.chosen;
    this.box.value = this.all.find(({ value }) => value === this.chosen)?.title ?? "";
  }

  activate(at) {
    this.options[this.active]?.removeAttribute("data-active");
    this.active = at;
    const option = this.options[at];
    if (!option) return this.box.removeAttribute("aria-activedescendant");
    option.dataset.active = "";
    option.scrollIntoView({ block: "nearest" });
    this.box.setAttribute("aria-activedescendant", option.id);
  }

  /** The next option that can be chosen, or the same where there is none. */
  next(at, step) {
    for (let to = at + step; to >= 0 && to < this.options.length; to += step) {
      if (!this.options[to].hasAttribute("aria-disabled")) return to;
    }
    return at;
  }

  /** Choose an option of the list. */
  take(at) {
    const option = this.options[at];
    if (!option || option.hasAttribute("aria-disabled")) return;
    const isOther = option.dataset.value !== this.chosen;
    this.chosen = option.dataset.value;
    this.close();
    this.box.select();
    if (isOther) this.dispatchEvent(new Event("change"));
  }

  pressed(event) {
    if (event.isComposing || event.ctrlKey || event.metaKey) return;
    const { key } = event;
    if (key === "ArrowDown" || key === "ArrowUp") {
      if (!this.isOpen) this.open();
      else if (!event.altKey) this.activate(this.next(this.active === -1 && key === "ArrowUp" ? this.options.length : this.active, key === "ArrowDown" ? 1 : -1));
      else if (key === "ArrowUp") this.close();
    } else if (this.isOpen && (key === "PageDown" || key === "PageUp")) {
      for (let step = 0; step < 8; step += 1) this.activate(this.next(this.active, key === "PageDown" ? 1 : -1));
    } else if (this.isOpen && key === "Enter") this.take(this.active);
    else if (this.isOpen && key === "Escape") this.close();
    else if (this.isOpen && key === "Tab") return this.take(this.active);
    else if (key !== "Enter") return;
    event.preventDefault(); // Enter sends no form either
  }
}
