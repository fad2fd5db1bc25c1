/** How to translate: menus of the text's format and of formality, a box of terms. Knows no languages. */

import { say } from "./dom.js";
import { plural } from "./format.js";

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
  /** @param {{format: HTMLSelectElement, dialect: HTMLSelectElement, formality: HTMLSelectElement, glossary: HTMLTextAreaElement, terms: HTMLElement}} controls */
  constructor(controls) {
    super();
    this.controls = controls;
    for (const menu of [controls.format, controls.dialect, controls.formality]) {
      menu.addEventListener("change", () => this.dispatchEvent(new Event("change")));
    }
    controls.glossary.addEventListener("input", (event) => event.isComposing || this.typed());
    controls.glossary.addEventListener("compositionend", () => this.typed());
    this.describe();
  }

  /** Fields of a request for texts; what is not chosen is left out. */
  get fields() {
    const { terms } = glossaryOf(this.controls.glossary.value);
    const chosen = { format: this.controls.format.value, formality: this.controls.formality.value, glossary: terms };
    if (chosen.format === "text") delete chosen.format;
    if (chosen.formality === "default") delete chosen.formality;
    if (!Object.keys(terms).length) delete chosen.glossary;
    return chosen;
  }

  /** The same for a document, whose format is its file's: strings of a form. */
  get documentFields() {
    const { formality, glossary } = this.fields;
    const dialect = this.controls.dialect.value || undefined;
    return { formality, dialect, glossary: glossary && JSON.stringify(glossary) };
  }

  typed() {
    this.describe();
    this.dispatchEvent(new Event("input"));
  }

  describe() {
    const { terms, faulty } = glossaryOf(this.controls.glossary.value);
    const count = Object.keys(terms).length;
    const fault = faulty.length ? `line ${faulty[0]} is not “term = translation”` : "";
    say(this.controls.terms, [count ? plural(count, "term") : "", fault].filter(Boolean).join(" · "));
  }
}
