/** The views of glossaries and of translation memories: those that the reader's key sees, and the form that makes one. */

import { byId, el, say } from "./dom.js";
import { plural } from "./format.js";
import * as server from "./server.js";
import * as stored from "./stored.js";

/** What each kind is called. */
export const WORDS = {
  glossaries: {
    one: "glossary",
    title: "Glossaries",
    about: "A glossary has terms with the translations that you want for them. Choose one for a text or a document below its languages.",
    make: "New glossary",
    file: "Its terms, as TSV or CSV: term and translation",
    text: "Term",
    entry: ["term", "terms"],
  },
  memories: {
    one: "memory",
    title: "Translation memories",
    about: "A memory has sentences with translations by people. A sentence that is in one is not translated again, and similar ones help the model. What you edit in documents goes into the memory “edits”.",
    make: "New memory",
    file: "Its sentences, as TMX",
    text: "Text",
    entry: ["entry", "entries"],
  },
};

/** `1 term`, `2 entries` */
export const counted = (kind, number) => plural(number, WORDS[kind].entry[0]).replace(new RegExp(`${WORDS[kind].entry[0]}s$`), WORDS[kind].entry[1]);

export class Collections {
  /** @param {{onMade: (kind: stored.Kind, id: string) => void}} listener */
  constructor({ onMade }) {
    this.kind = null;
    this.onMade = onMade;
    this.name = byId("make-name");
    this.file = byId("make-file");
    this.menus = { source: byId("make-source"), target: byId("make-target") };
    byId("make").addEventListener("submit", (event) => {
      event.preventDefault();
      this.make();
    });
    this.file.addEventListener("change", () => (this.name.value ||= stem(this.file.files[0]?.name ?? "")));
  }

  /** Show those of a kind, or none. @param {stored.Kind | null} kind @param {import("./languages.js").LanguagePair} pair */
  toggle(kind, pair) {
    this.asking?.abort();
    this.kind = kind;
    this.pair = pair;
    if (!kind) return;
    const words = WORDS[kind];
    for (const [id, text] of [["collections-title", words.title], ["collections-about", words.about], ["make-title", words.make], ["make-file-label", words.file]]) say(byId(id), text);
    this.file.accept = stored.FILES[kind].join(",");
    byId("make-pair").hidden = kind !== "glossaries";
    fillPair(this.menus, pair);
    byId("collection-list").replaceChildren();
    this.load();
  }

  async load() {
    const { kind } = this;
    const asking = (this.asking = new AbortController());
    try {
      const found = await stored.list(kind, asking.signal);
      this.report();
      byId("collections-empty").hidden = found.length > 0;
      byId("collection-list").replaceChildren(...found.map((one) => this.row(one)));
    } catch (error) {
      if (!asking.signal.aborted) this.report(error);
    }
  }

  row(one) {
    const name = el("a", { href: `#${this.kind}/${encodeURIComponent(one.id)}`, class: "name" }, one.name);
    const pairs = stored.pairsOf(one).map((pair) => this.pair.languages.direction(pair));
    const shown = pairs.length > 3 ? [...pairs.slice(0, 3), `and ${pairs.length - 3} more`] : pairs;
    const facts = [counted(this.kind, stored.countOf(one)), shown.join(", "), stored.ownerOf(one)];
    return el("li", {}, name, el("span", { class: "figure" }, facts.filter(Boolean).join(" · ")));
  }

  /** Make one, with the file's entries where there is one. */
  async make() {
    const { kind } = this;
    const [file] = this.file.files;
    const name = this.name.value.trim();
    if (!name) return this.name.focus();
    try {
      this.report();
      const made = await stored.make(kind, name);
      this.name.value = "";
      try {
        if (file) await stored.addFile(kind, made.id, file, { source: this.menus.source.value, target: this.menus.target.value });
      } catch (error) {
        await stored.remove(kind, made.id);
        this.name.value = name;
        throw error;
      }
      this.file.value = "";
      this.onMade(kind, made.id);
    } catch (error) {
      this.report(error);
    }
  }

  /** Ask again, when the view is shown. */
  retry() {
    if (this.kind) this.load();
  }

  report(error) {
    say(byId("collections-fault"), error ? (error.sentence ?? error.message) : "");
    if (error && !(error instanceof server.ServerError)) throw error;
  }
}

/** Menus of two languages, the reader's own pair first. @param {{source: HTMLSelectElement, target: HTMLSelectElement}} menus */
export function fillPair(menus, { languages, source, target }) {
  for (const menu of [menus.source, menus.target]) {
    const { value } = menu;
    menu.replaceChildren(...languages.options());
    menu.value = languages.has(value) ? value : "";
  }
  menus.target.value ||= target;
  const others = [source, "en", ...languages.keys()].filter((code) => languages.has(code) && code !== menus.target.value);
  menus.source.value ||= others[0];
}

/** A file's name without its folder and extension. */
const stem = (name) => name.replace(/\.[^.]*$/, "");
