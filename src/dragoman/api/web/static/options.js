/** How to translate: menus of the text's format and of formality, a box of terms or a stored glossary, a translation memory. */

import { el, say } from "./dom.js";
import { t } from "./i18n.js";
import { pairsOf } from "./stored.js";

const MEMORIES = [["true", t("options.all_memories")], ["false", t("options.no_memory")]];

/** The terms of lines such as `server = サーバー`; `faulty` are the numbers of lines that have no translation. */
export function glossaryOf(text) {
  const terms = {};
  const faulty = [];
  for (const [index, line] of text.split("\n").entries()) {
    const [, term, translation] = /^(.*?)[=\t](.*)$/.exec(line)?.map((part) => part.trim()) ?? [];
    if (term && translation) terms[term] = translation;
    else if (line.trim()) faulty.push(index + 1);
  }
  return { terms, faulty };
}

/** Dispatches `change` when the reader chose something else, and `input` while terms are typed. */
export class TextOptions extends EventTarget {
  /** @param {{format: HTMLSelectElement, dialect: HTMLSelectElement, formality: HTMLSelectElement, glossary: HTMLTextAreaElement, terms: HTMLElement,
   *   stored: HTMLSelectElement, memory: HTMLSelectElement}} controls */
  constructor(controls) {
    super();
    this.controls = controls;
    for (const menu of [controls.format, controls.dialect, controls.formality, controls.stored, controls.memory]) {
      menu.addEventListener("change", () => this.changed());
    }
    controls.glossary.addEventListener("input", (event) => event.isComposing || this.typed());
    controls.glossary.addEventListener("compositionend", () => this.typed());
    this.describe();
  }

  /** Fields of a request for texts; what is not chosen is left out. */
  get fields() {
    const terms = this.controls.stored.value || glossaryOf(this.controls.glossary.value).terms;
    const memory = { "": true, true: true, false: false }[this.controls.memory.value] ?? this.controls.memory.value;
    const chosen = { memory, format: this.controls.format.value, formality: this.controls.formality.value, glossary: terms };
    if (chosen.format === "text") delete chosen.format;
    if (chosen.formality === "default") delete chosen.formality;
    if (!Object.keys(terms).length) delete chosen.glossary;
    if (memory === true) delete chosen.memory;
    return chosen;
  }

  /** The same for a document, whose format is its file's: strings of a form. */
  get documentFields() {
    const { formality, glossary, memory = true } = this.fields;
    const dialect = this.controls.dialect.value || undefined;
    return { formality, dialect, memory: String(memory), glossary: typeof glossary === "object" ? JSON.stringify(glossary) : glossary };
  }

  /** Offer what is stored, as far as it has entries for a pair of languages; what was chosen and is gone is no longer chosen. */
  offer(glossaries, memories, pair) {
    const serving = (one) => pairsOf(one).some((entry) => serves(entry, pair));
    const named = (list) => list.filter(serving).map(({ id, name }) => [id, name]);
    refill(this.controls.stored, [["", t("options.terms_below")], ...named(glossaries)]);
    refill(this.controls.memory, [...MEMORIES, ...named(memories)]);
    this.describe();
  }

  changed() {
    this.describe();
    this.dispatchEvent(new Event("change"));
  }

  typed() {
    this.describe();
    this.dispatchEvent(new Event("input"));
  }

  describe() {
    this.controls.glossary.parentElement.hidden = Boolean(this.controls.stored.value);
    const { terms, faulty } = glossaryOf(this.controls.glossary.value);
    const count = Object.keys(terms).length;
    const fault = faulty.length ? t("options.faulty_line", { line: faulty[0] }) : "";
    say(this.controls.terms, [count ? t("count.terms", { count }) : "", fault].filter(Boolean).join(" · "));
  }
}

/** Whether entries of a pair of languages can serve another one, whose source may be unknown. Regions do not count. */
function serves(entry, { source, target }) {
  const same = (one, other) => one.split("-")[0] === other.split("-")[0];
  return same(entry.target, target) && (!source || same(entry.source, source));
}

/** Options of a menu, `[value, title]`; where there is one to choose, it is shown. */
function refill(menu, choices) {
  const { value } = menu;
  menu.replaceChildren(...choices.map(([id, title]) => el("option", { value: id }, title)));
  if (choices.some(([id]) => id === value)) menu.value = value;
  menu.parentElement.hidden = choices.every(([id]) => ["", "true", "false"].includes(id));
}
