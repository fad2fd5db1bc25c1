/** One glossary or translation memory: what it is, and its entries, which are searched, added, changed and deleted. */

import { asksForLanguage, counted, fillPair, wordOf } from "./collections.js";
import { saveBlob } from "./document.js";
import { byId, el, say } from "./dom.js";
import { button } from "./editor.js";
import { showFault, throwUnknown } from "./faults.js";
import { day, t } from "./i18n.js";
import { mark } from "./languages.js";
import { rendered } from "./marks.js";
import { Picker } from "./picker.js";
import * as stored from "./stored.js";

const PAUSE_MS = 300; // after the last letter

export class Collection {
  /** @param {{onDeleted: (kind: stored.Kind) => void}} listener */
  constructor({ onDeleted }) {
    this.id = null;
    this.shown = new AbortController(); // aborted when another view is shown
    this.onDeleted = onDeleted;
    this.status = byId("entries-status");
    this.find = byId("entries-find");
    this.direction = byId("entries-pair");
    this.added = { source: new Picker(byId("entry-source")), target: new Picker(byId("entry-target")), text: byId("entry-text"), translation: byId("entry-translation") };
    this.file = byId("entries-file");
    this.listen();
  }

  listen() {
    const on = (id, type, act) =>
      byId(id).addEventListener(type, (event) => {
        if (type === "submit") event.preventDefault();
        if (this.about) this.attempt(act);
      });
    on("entry-add", "submit", () => this.add());
    on("entries-search", "submit", () => this.search());
    on("entries-pair", "change", () => this.search());
    on("entries-more", "click", () => (this.pages ? this.more() : this.search()));
    on("entries-file", "change", () => this.addFile());
    on("collection-rename", "click", () => this.rename());
    on("collection-share", "click", () => this.change({ shared: !this.about.shared }));
    on("collection-export", "click", () => this.download());
    on("collection-delete", "click", () => this.delete());
    this.find.addEventListener("input", (event) => event.isComposing || this.later());
    this.find.addEventListener("compositionend", () => this.later());
  }

  /** Show the one of this kind with this id, or none. @param {stored.Kind} kind @param {string | null} id @param {import("./languages.js").LanguagePair} pair */
  toggle(kind, id, pair) {
    this.stop();
    this.shown.abort();
    Object.assign(this, { kind, id, pair, about: null, pages: null, next: null, shown: new AbortController() });
    if (!id) return;
    byId("entries-back").href = `#${kind}`;
    say(byId("entries-back-title"), wordOf(kind, "title"));
    for (const name of ["entry-text-label", "entries-text-head"]) say(byId(name), wordOf(kind, "text"));
    this.file.accept = stored.FILES[kind].join(",");
    this.find.value = "";
    fillPair(this.added, pair);
    this.load();
  }

  load() {
    this.stop();
    say(byId("entries-title"), wordOf(this.kind, "title")); // until its name is known: the section is called by it
    for (const name of ["entries-facts", "entries-fault", "entries-status"]) say(byId(name), "");
    byId("entries").replaceChildren();
    byId("entries-more").hidden = true;
    this.direction.replaceChildren();
    this.attempt(async () => {
      await this.reload();
      byId("entries-title").focus({ preventScroll: true });
      await this.search();
    });
  }

  /** Ask again, when it is shown. */
  retry() {
    if (this.id) this.load();
  }

  stop() {
    clearTimeout(this.timer);
    this.asking?.abort();
  }

  later() {
    clearTimeout(this.timer);
    if (this.about) this.timer = setTimeout(() => this.attempt(() => this.search()), PAUSE_MS);
  }

  /** Do something; say what the server has against it, while the collection is shown. */
  async attempt(act) {
    const { signal } = this.shown;
    say(byId("entries-fault"), "");
    try {
      await act();
    } catch (error) {
      if (error.name === "AbortError") return;
      if (signal.aborted) return throwUnknown(error);
      showFault(byId("entries-fault"), error);
    }
  }

  /** What a change answers. It is not taken back when another view is shown meanwhile, but what follows from it is not done there. */
  async done(change) {
    const { signal } = this.shown;
    const answer = await change;
    signal.throwIfAborted();
    return answer;
  }

  /** Read again what it is, and which languages it has. */
  async reload() {
    this.describe(await stored.get(this.kind, this.id, this.shown.signal));
  }

  describe(about) {
    this.about = about;
    const { shared, changeable, shareable, name } = about;
    byId("entries-table").dataset.kind = this.kind;
    say(byId("entries-title"), name);
    document.title = `${name} – dragoman`;
    say(byId("entries-facts"), [counted(this.kind, stored.countOf(about)), stored.ownerOf(about)].filter(Boolean).join(" · "));
    for (const id of ["entry-add", "collection-rename", "collection-delete", "entries-file-label"]) byId(id).hidden = !changeable;
    byId("entries-file").disabled = !changeable;
    byId("collection-share").hidden = !shareable;
    say(byId("collection-share"), t(shared ? "entries.unshare" : "entries.share"));
    this.offerPairs(stored.pairsOf(about));
  }

  /** The directions that there are; of a memory, all together too. */
  offerPairs(pairs) {
    const { value } = this.direction;
    const options = pairs.map((pair) => el("option", { value: `${pair.source} ${pair.target}` }, `${this.pair.languages.direction(pair)} (${pair.entry_count})`));
    if (this.kind === "memories") options.unshift(el("option", { value: "" }, t("entries.all")));
    this.direction.replaceChildren(...options);
    if (options.some((one) => one.value === value)) this.direction.value = value;
    byId("collection-export").disabled = byId("entries-search").hidden = !pairs.length;
  }

  /** The chosen direction, or null. */
  get chosen() {
    const [source, target] = this.direction.value.split(" ");
    return target ? { source, target } : null;
  }

  /** Show the first entries that have what is searched for. */
  async search() {
    this.stop();
    const { signal } = (this.asking = new AbortController());
    this.pages = stored.entries(this.kind, this.id, this.chosen, this.find.value, signal);
    this.next = null;
    this.next = await this.read();
    byId("entries").replaceChildren();
    await this.more();
    byId("entries-table").hidden = !byId("entries").children.length;
    if (byId("entries-table").hidden) say(this.status, t(this.find.value ? "entries.nothing" : "entries.none"));
    else if (this.saidNone) say(this.status, "");
    this.saidNone = byId("entries-table").hidden;
  }

  /** Show the page that has been read, and read the one behind it: then it is known whether there is one. */
  async more() {
    const { next } = this;
    if (!next) return; // it is being read
    this.next = null;
    byId("entries").append(...(next.value ?? []).map((entry) => new Row(this, entry).element));
    this.next = await this.read();
    byId("entries-more").hidden = Boolean(this.next.done);
  }

  /** The next page. None comes behind one that failed: then there are no pages, until they are searched for again. */
  async read() {
    const { pages } = this;
    try {
      return await pages.next();
    } catch (error) {
      if (pages === this.pages) this.pages = null;
      throw error;
    }
  }

  async add() {
    const { source, target, text, translation } = this.added;
    const entry = { source: source.value, target: target.value, text: text.value.trim(), translation: translation.value.trim() };
    const empty = [source, target, text, translation].find(({ value }) => !value.trim());
    if (empty) {
      empty.focus();
      return empty.open?.(); // of languages
    }
    await this.done(stored.setEntry(this.kind, this.id, entry));
    text.value = translation.value = "";
    text.focus();
    await this.changedIn(entry, t("entries.added", { text: entry.text }));
  }

  /** Show the direction in which entries have changed. */
  async changedIn({ source, target }, message) {
    await this.reload();
    const direction = `${source} ${target}`;
    if (this.direction.value && [...this.direction.options].some(({ value }) => value === direction)) this.direction.value = direction;
    await this.search();
    say(this.status, message);
  }

  async addFile() {
    const [file] = this.file.files;
    if (!file) return;
    const pair = { source: this.added.source.value, target: this.added.target.value };
    try {
      if (this.kind === "glossaries" && asksForLanguage(this.added)) return;
      const skipped = await this.done(stored.addFile(this.kind, this.id, file, pair));
      await this.changedIn(pair, skipped ? t("entries.file_added_without", { name: file.name, entries: counted(this.kind, skipped) }) : t("entries.file_added", { name: file.name }));
    } finally {
      this.file.value = ""; // the same file may be chosen again
    }
  }

  async rename() {
    const name = prompt(t("entries.new_name"), this.about.name)?.trim();
    if (name && name !== this.about.name) await this.change({ name });
  }

  async change(fields) {
    this.describe(await this.done(stored.change(this.kind, this.id, fields)));
  }

  async download() {
    const [first] = stored.pairsOf(this.about);
    saveBlob(await stored.exported(this.kind, this.about, this.chosen ?? first));
  }

  async delete() {
    const { name } = this.about;
    if (!confirm(t("entries.confirm", { name, entries: counted(this.kind, stored.countOf(this.about)) }))) return;
    await this.done(stored.remove(this.kind, this.id));
    for (const key of unsaved.keys()) if (JSON.parse(key)[0] === this.id) unsaved.delete(key);
    this.onDeleted(this.kind);
  }
}

/** What is typed into entries and not saved, by entry; it is asked for before the page is left. */
const unsaved = new Map();
addEventListener("beforeunload", (event) => unsaved.size && event.preventDefault());

/** An entry in the table. While it is edited, what is typed is there again wherever the entry is shown. */
class Row {
  /** @param {Collection} list @param {stored.Entry} entry */
  constructor(list, entry) {
    this.list = list;
    this.entry = entry;
    const text = el("th", { scope: "row" }, ...rendered(entry.text, {}, list.find.value));
    mark(text, entry.source);
    this.cell = el("td", {});
    mark(this.cell, entry.target);
    this.tools = el("td", { class: "tools" });
    const when = entry.updated_at ? day(new Date(entry.updated_at)) : "";
    const about = [list.chosen ? "" : list.pair.languages.direction(entry), when].filter(Boolean).join(" · ");
    this.element = el("tr", {}, text, this.cell, el("td", { class: "figure" }, about), this.tools);
    this.key = JSON.stringify([list.id, entry.source, entry.target, entry.text]);
    this.show();
    if (unsaved.has(this.key)) this.open(unsaved.get(this.key));
  }

  show() {
    const { text, translation } = this.entry;
    this.cell.replaceChildren(...rendered(translation, {}, this.list.find.value));
    if (!this.list.about.changeable) return;
    this.edit = button(t("entries.edit"), () => this.open().focus(), { "aria-label": t("entries.edit_named", { text }) });
    this.tools.replaceChildren(this.edit, button(t("entries.delete"), () => this.list.attempt(() => this.delete()), { class: "quiet", "aria-label": t("entries.delete_named", { text }) }));
  }

  /** Edit it, beginning with a text; returns the box. */
  open(text = this.entry.translation) {
    const field = el("textarea", { rows: "2", "aria-label": t("entries.translation_of", { text: this.entry.text }) });
    field.value = text;
    field.addEventListener("input", () => (field.value === this.entry.translation ? unsaved.delete(this.key) : unsaved.set(this.key, field.value)));
    const save = () => this.list.attempt(() => this.save(field.value.trim()));
    field.addEventListener("keydown", (event) => {
      if (event.isComposing) return;
      if (event.key === "Escape") this.close();
      else if (event.key === "Enter" && (event.ctrlKey || event.metaKey || this.list.kind === "glossaries")) save();
      else return;
      event.preventDefault();
    });
    this.cell.replaceChildren(field);
    this.tools.replaceChildren(button(t("entries.save"), save, { class: "primary" }), button(t("entries.cancel"), () => this.close()));
    return field;
  }

  close() {
    unsaved.delete(this.key);
    this.show();
    this.edit.focus();
  }

  async save(translation) {
    if (!translation) return this.delete();
    const { list, entry } = this;
    if (translation !== entry.translation) await list.done(stored.setEntry(list.kind, list.id, { ...entry, translation }));
    this.entry = { ...entry, translation };
    this.close();
    say(list.status, t("entries.saved"));
  }

  /** Delete it, and offer to take that back. */
  async delete() {
    const { list, entry } = this;
    await list.done(stored.removeEntry(list.kind, list.id, entry));
    unsaved.delete(this.key);
    this.element.remove();
    await list.reload();
    const undo = button(t("entries.undo"), () =>
      list.attempt(async () => {
        await list.done(stored.setEntry(list.kind, list.id, entry));
        await list.changedIn(entry, t("entries.added", { text: entry.text }));
        byId("entries-title").focus({ preventScroll: true }); // the button is gone
      }),
    );
    list.status.replaceChildren(`${t("entries.deleted", { text: entry.text })} `, undo);
    undo.focus();
  }
}
