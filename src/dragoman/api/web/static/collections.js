/** The views of glossaries and of translation memories: those that the reader's key sees, and the form that makes one. */

import { byId, el, say } from "./dom.js";
import { showFault } from "./faults.js";
import { t } from "./i18n.js";
import { Picker } from "./picker.js";
import * as stored from "./stored.js";

/** What is said of a kind: its title, what it is about, and so on. @param {stored.Kind} kind */
export const wordOf = (kind, word) => t(`collections.${kind}_${word}`);

/** `1 term`, `2 entries` */
export const counted = (kind, count) => t(kind === "glossaries" ? "count.terms" : "count.entries", { count });

export class Collections {
  /** @param {{onMade: (kind: stored.Kind, id: string) => void}} listener */
  constructor({ onMade }) {
    this.kind = null;
    this.onMade = onMade;
    this.name = byId("make-name");
    this.file = byId("make-file");
    this.pickers = { source: new Picker(byId("make-source")), target: new Picker(byId("make-target")) };
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
    for (const [id, word] of [["collections-title", "title"], ["collections-about", "about"], ["make-title", "make"], ["make-file-label", "file"]]) say(byId(id), wordOf(kind, word));
    this.file.accept = stored.FILES[kind].join(",");
    byId("make-pair").hidden = kind !== "glossaries";
    fillPair(this.pickers, pair);
    byId("collection-list").replaceChildren();
    this.load();
  }

  async load() {
    const { kind } = this;
    const asking = (this.asking = new AbortController());
    this.report(); // now: when the answer comes, another fault may be shown
    try {
      const found = await stored.list(kind, asking.signal);
      byId("collections-empty").hidden = found.length > 0;
      byId("collection-list").replaceChildren(...found.map((one) => this.row(one)));
    } catch (error) {
      if (!asking.signal.aborted) this.report(error);
    }
  }

  row(one) {
    const name = el("a", { href: `#${this.kind}/${encodeURIComponent(one.id)}`, class: "name" }, one.name);
    const pairs = stored.pairsOf(one).map((pair) => this.pair.languages.direction(pair));
    const shown = pairs.length > 3 ? [...pairs.slice(0, 3), t("count.more", { count: pairs.length - 3 })] : pairs;
    const facts = [counted(this.kind, stored.countOf(one)), shown.join(", "), stored.ownerOf(one)];
    return el("li", {}, name, el("span", { class: "figure" }, facts.filter(Boolean).join(" · ")));
  }

  /** Make one, with the file's entries where there is one. */
  async make() {
    const { kind } = this;
    const [file] = this.file.files;
    const name = this.name.value.trim();
    if (!name) return this.name.focus();
    if (file && kind === "glossaries" && asksForLanguage(this.pickers)) return;
    try {
      this.report();
      const made = await stored.make(kind, name);
      this.name.value = "";
      try {
        if (file) await stored.addFile(kind, made.id, file, { source: this.pickers.source.value, target: this.pickers.target.value });
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
    showFault(byId("collections-fault"), error);
  }
}

/** Whether a language of a pair is not chosen: the reader is at it then. @param {{source: Picker, target: Picker}} pickers */
export function asksForLanguage({ source, target }) {
  const empty = [source, target].find(({ value }) => !value);
  empty?.focus();
  empty?.open();
  return Boolean(empty);
}

/** Pickers of two languages, the reader's own pair first. @param {{source: Picker, target: Picker}} pickers */
export function fillPair(pickers, { languages, source, target }) {
  for (const picker of [pickers.source, pickers.target]) picker.fill([{ label: "", choices: languages.choices() }]);
  pickers.target.value ||= target;
  pickers.source.value ||= [source, "en"].find((code) => languages.has(code) && code !== pickers.target.value) ?? "";
}

/** A file's name without its folder and extension. */
const stem = (name) => name.replace(/\.[^.]*$/, "");
