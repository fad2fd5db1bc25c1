/** The view of documents: files that go to the server, and the list of those that it has. */

import { Progress, deleted, forget, saveResult } from "./document.js";
import { byId, el, say } from "./dom.js";
import { draftedSegments } from "./drafts.js";
import { fault, showFault, throwUnknown } from "./faults.js";
import { Feed } from "./feed.js";
import { kindsOf } from "./filekinds.js";
import { t } from "./i18n.js";
import * as server from "./server.js";

const RUNNING = new Set(["queued", "translating"]);

export class Documents {
  /**
   * @param {import("./languages.js").LanguagePair} pair
   * @param {import("./options.js").TextOptions} options
   * @param {{onUploaded: (id: string) => void}} listener told of a file that was uploaded alone
   */
  constructor(pair, options, { onUploaded }) {
    this.pair = pair;
    this.options = options;
    this.onUploaded = onUploaded;
    this.notes = byId("upload-notes");
    this.rows = new Map();
    this.shown = false;
    this.wanted = server.DOCUMENTS_PER_PAGE;
    this.feed = new Feed(
      (signal) => server.documents(this.wanted, signal),
      (found) => this.show(found),
      (error) => this.say(error),
    );
    byId("documents-more").addEventListener("click", () => this.showMore());
    this.find = byId("documents-find");
    this.find.addEventListener("input", () => this.filter());
    byId("documents-delete").addEventListener("click", () => this.deleteAll());
    const file = byId("file");
    file.addEventListener("change", () => {
      this.upload([...file.files]);
      file.value = ""; // the same file may be chosen again
    });
  }

  toggle(shown) {
    this.say();
    this.shown = shown;
    if (shown) this.feed.ask();
    else this.feed.stop();
  }

  /** Ask again, when the view is shown. */
  retry() {
    if (this.shown) this.toggle(true);
  }

  showMore() {
    this.wanted += server.DOCUMENTS_PER_PAGE;
    this.feed.ask();
  }

  /** Show the documents whose names have what is searched for; older ones are asked for too. */
  filter() {
    if (this.find.value && this.wanted < Number.MAX_SAFE_INTEGER) {
      this.wanted = Number.MAX_SAFE_INTEGER;
      this.feed.ask();
    }
    const wanted = this.find.value.toLocaleLowerCase();
    for (const { element, name } of this.rows.values()) element.hidden = !name.toLocaleLowerCase().includes(wanted);
  }

  /** Delete the documents that are shown, if the reader confirms it. */
  async deleteAll() {
    const shown = [...this.rows.values()].filter(({ element }) => !element.hidden);
    if (!shown.length || !confirm(t("documents.confirm_all", { count: shown.length }))) return;
    try {
      for (const { id } of shown) {
        await forget(id);
        this.drop(id);
      }
    } catch (error) {
      this.say(error);
    }
    this.feed.ask(); // there may be older ones
  }

  /** Say which files are read, and what comes back of them; offer no others. */
  async describeFormats() {
    const formats = await server.fileFormats().catch(() => []);
    byId("file").accept = formats.join(",");
    const rows = kindsOf(formats.map((extension) => extension.slice(1))).map(({ title, extensions, back }) =>
      el("div", {}, el("dt", {}, title, " ", el("span", { class: "hint" }, extensions.join(" "))), el("dd", {}, back)),
    );
    byId("file-formats").replaceChildren(...rows);
  }

  /** @param {File[]} files */
  async upload(files) {
    this.notes.replaceChildren();
    const { source, target } = this.pair;
    const fields = { source, target, ...this.options.documentFields };
    const uploaded = (await Promise.all(files.map((file) => this.send(file, fields)))).filter(Boolean);
    if (files.length === 1 && uploaded.length) this.onUploaded(uploaded[0].id);
    else if (uploaded.length) this.feed.ask();
  }

  async send(file, fields) {
    const note = el("p", { class: "uploading" }, t("documents.uploading", { name: file.name }), el("progress", { "aria-label": t("documents.upload", { name: file.name }) }));
    this.notes.append(note);
    try {
      return await server.createDocument(file, fields);
    } catch (error) {
      this.report(error, `${file.name}: `);
      return null;
    } finally {
      note.remove();
    }
  }

  report(error, about = "") {
    this.notes.append(el("p", { class: "fault" }, about, ...fault(error)));
    throwUnknown(error);
  }

  /** What is wrong with the list, or nothing. */
  say(error) {
    showFault(byId("documents-fault"), error);
  }

  /** Returns whether to ask again. */
  show({ documents, more }) {
    this.say();
    say(byId("documents-count"), t(more ? "documents.newest" : "documents.all", { count: documents.length }));
    byId("documents-count").hidden = !more && this.wanted === server.DOCUMENTS_PER_PAGE;
    byId("documents-more").hidden = !more;
    const listed = new Set(documents.map(({ id }) => id));
    for (const id of this.rows.keys()) if (!listed.has(id)) this.drop(id);
    documents.forEach((one, at) => this.row(one, at).show(one));
    byId("documents-tools").hidden = !documents.length;
    this.filter();
    byId("documents-empty").hidden = documents.length > 0;
    return documents.some(({ state }) => RUNNING.has(state));
  }

  row(one, at) {
    const row = this.rows.get(one.id) ?? new Row(one, this.pair.languages, () => this.drop(one.id), (error) => this.say(error));
    this.rows.set(one.id, row);
    const list = byId("document-list");
    if (list.children[at] !== row.element) list.insertBefore(row.element, list.children[at] ?? null);
    return row;
  }

  drop(id) {
    this.rows.get(id)?.element.remove();
    this.rows.delete(id);
    byId("documents-empty").hidden = this.rows.size > 0;
  }
}

/** A document of the list. */
class Row {
  constructor(one, languages, onDeleted, onError) {
    this.id = one.id;
    this.name = one.name;
    this.languages = languages;
    this.pair = el("span", { class: "languages" });
    this.progress = new Progress();
    this.doubtful = el("span", { class: "doubtful figure" });
    this.download = el("button", { type: "button", "aria-label": t("documents.download_named", { name: one.name }) }, t("documents.download"));
    const remove = el("button", { type: "button", class: "quiet", "aria-label": t("documents.delete_named", { name: one.name }) }, t("documents.delete"));
    this.download.addEventListener("click", () => saveResult(one.id).catch(onError));
    remove.addEventListener("click", () => deleted(one).then((gone) => gone && onDeleted(), onError));
    const name = el("a", { href: `#documents/${encodeURIComponent(one.id)}`, class: "name" }, one.name);
    this.drafts = el("span", { class: "drafts figure" });
    const remarks = el("span", { class: "remarks" }, this.doubtful, this.drafts);
    this.element = el("li", {}, name, this.pair, this.progress.element, remarks, el("span", { class: "tools" }, this.download, remove));
  }

  show(one) {
    say(this.pair, one.source ? this.languages.direction(one) : `… → ${this.languages.name(one.target)}`);
    this.progress.show(one);
    say(this.doubtful, one.doubtful ? t("count.doubtful", { count: one.doubtful }) : "");
    const { length } = draftedSegments(one.id);
    say(this.drafts, length ? t("count.unsaved", { count: length }) : "");
    this.download.disabled = one.state !== "done";
  }
}
