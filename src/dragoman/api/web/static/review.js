/** One document: its state, its result, and its segments with the doubtful ones in turn. */

import { Progress, deleted, saveResult } from "./document.js";
import { byId, el, say } from "./dom.js";
import { draftedSegments, dropLostDrafts } from "./drafts.js";
import { showFault, warningOf } from "./faults.js";
import { Feed } from "./feed.js";
import { Find } from "./find.js";
import { dayAndTime, has, t } from "./i18n.js";
import { Imported } from "./imported.js";
import { placeName } from "./places.js";
import { SegmentList } from "./segments.js";
import * as server from "./server.js";

export class Review {
  /** @param {{onDeleted: () => void}} listener */
  constructor({ onDeleted }) {
    this.id = null;
    this.progress = new Progress();
    this.notes = byId("review-notes");
    this.next = byId("next-doubtful");
    this.previous = byId("previous-doubtful");
    this.find = new Find({
      onFound: (numbers, find) => this.list?.show(numbers, find),
      onReplaced: (segments) => this.list?.changed(segments),
      onError: (error) => this.report(error),
    });
    this.imported = new Imported((segments) => this.list?.changed(segments));
    byId("review-progress").append(this.progress.element);
    this.feed = new Feed(
      (signal) => server.documentOf(this.id, signal),
      (one) => this.show(one),
      (error) => this.lost(error),
    );
    this.listen(onDeleted);
  }

  listen(onDeleted) {
    const report = (error) => this.report(error);
    const download = (button, format) => byId(button).addEventListener("click", () => saveResult(this.id, format).catch(report));
    download("download");
    download("download-xliff", "xliff");
    download("download-tmx", "tmx");
    const xliff = byId("xliff");
    xliff.addEventListener("change", async () => {
      await this.takeBack(xliff.files[0]);
      xliff.value = ""; // the same file may be chosen again
    });
    byId("review-delete").addEventListener("click", () => deleted(this.document).then((gone) => gone && onDeleted(), report));
    byId("review-drafts").querySelector("button").addEventListener("click", () => this.goToDraft());
    this.next.addEventListener("click", () => this.step(1));
    this.previous.addEventListener("click", () => this.step(-1));
    addEventListener("keydown", (event) => {
      const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
      if (!this.id || !step || !event.altKey || event.ctrlKey || event.metaKey) return;
      event.preventDefault();
      this.step(step);
    });
  }

  /**
   * Show the document with this id, or none. @param {string | null} id @param {import("./languages.js").Languages} languages
   * @param {number | null} segment number to go to
   */
  toggle(id, languages, segment = null) {
    this.wanted = segment;
    if (id && id === this.id && this.list) return this.goToWanted();
    this.feed.stop();
    this.find.stop();
    this.list?.close();
    this.list = this.document = null;
    this.id = id;
    this.languages = languages;
    if (!id) return;
    this.report();
    this.imported.clear();
    for (const part of ["review-drafts", "review-actions", "review-tools"]) byId(part).hidden = true;
    this.progress.element.hidden = true;
    say(byId("review-title"), t("review.title"));
    byId("segments").replaceChildren();
    scrollTo(0, 0);
    this.feed.ask();
  }

  /** Returns whether to ask again. */
  show(one) {
    const title = byId("review-title");
    say(title, one.name);
    if (!this.document) title.focus({ preventScroll: true });
    if (this.isLost) this.report();
    this.isLost = false;
    this.document = one;
    document.title = `${one.name} – dragoman`;
    say(byId("review-facts"), this.facts(one));
    this.progress.element.hidden = byId("review-actions").hidden = false;
    this.progress.show(one);
    this.remark(one);
    for (const id of ["download", "download-xliff", "download-tmx", "xliff"]) byId(id).disabled = one.state !== "done";
    this.next.disabled = this.previous.disabled = !one.doubtful;
    say(byId("doubtful-count"), this.doubt(one));
    this.showSegments(one);
    return one.state === "queued" || one.state === "translating";
  }

  /** Whether files that are dropped are one that may have been exported here. @param {File[]} files */
  takesBack(files) {
    return this.document?.state === "done" && files.length === 1 && /\.xl(f|iff)$/i.test(files[0].name);
  }

  /** An exported file comes back from a translator's tool: say what became of it. */
  async takeBack(file) {
    const { id } = this;
    this.report();
    this.imported.clear();
    try {
      const taken = await server.takeBack(id, file);
      if (id !== this.id) return; // the reader has gone on to another document
      this.imported.show(file.name, taken, this.list.about);
      this.list.show(this.list.numbers, this.list.about.find);
      this.feed.ask();
    } catch (error) {
      if (id === this.id) this.report(error);
    }
  }

  facts({ source, target, detected, segments, characters, expires, state }) {
    const unknown = state === "queued" || state === "translating" ? "…" : ""; // none in a file without text
    const from = source ? (detected ? t("review.detected", { language: this.languages.name(source) }) : this.languages.name(source)) : unknown;
    const size = segments || state === "done" ? `${t("count.segments", { count: segments })}, ${t("count.characters", { count: characters })}` : "";
    const kept = expires ? t("review.kept", { time: dayAndTime(timeOf(expires)) }) : "";
    return [`${from} → ${this.languages.name(target)}`.trim(), size, kept].filter(Boolean).join(" · ");
  }

  doubt({ doubtful, state }) {
    if (doubtful) return t("count.doubtful", { count: doubtful });
    return state === "done" ? t("review.none_doubtful") : "";
  }

  /** What was found in the file, and what was left as it was. */
  remark({ warnings, left, left_count: leftCount }) {
    const box = byId("review-remarks");
    box.hidden = !warnings.length && !leftCount;
    if (box.hidden) return;
    const titles = [warnings.length ? t("count.warnings", { count: warnings.length }) : "", leftCount ? t("count.left", { count: leftCount }) : ""];
    say(box.querySelector("summary"), titles.filter(Boolean).join(", "));
    const more = leftCount - left.length;
    const rows = [
      ...warnings.map((warning) => [placeName(warning.place ?? ""), [remarkOf(warning)], ""]),
      ...left.map(({ place, reason, text }) => [placeName(place), [whyLeft(reason)], text]),
      ...(more > 0 ? [["", [t("count.more", { count: more })], ""]] : []),
    ];
    const key = JSON.stringify([warnings, left, leftCount]);
    if (this.remarks === key) return;
    this.remarks = key;
    const cells = ([place, why, text]) => [el("th", { scope: "row" }, place), el("td", {}, ...why), el("td", {}, text)];
    box.querySelector("table").replaceChildren(el("tbody", {}, ...rows.map((row) => el("tr", {}, ...cells(row)))));
  }

  showSegments(one) {
    if (!one.segments) return;
    if (!this.list || this.list.about.source !== one.source) {
      this.list?.close(); // it began before the language was known
      const about = { id: one.id, source: one.source, target: one.target, languages: this.languages };
      this.list = new SegmentList(byId("segments"), about, one.segments, {
        onEdited: () => this.feed.ask(),
        onDraft: () => this.showDrafts(),
        onLost: (error) => this.lost(error),
        onCurrent: (n) => history.replaceState(null, "", `#documents/${encodeURIComponent(this.id)}/${n + 1}`),
      });
      byId("review-tools").hidden = false;
      this.find.open(one.id, one.target);
      this.showDrafts();
      this.goToWanted();
    }
    this.list.takeConfidenceAs(one.confidence_kind);
    this.list.allowEdits(one.state === "done");
    if (one.segments_done !== this.shown) this.list.refresh();
    this.shown = one.segments_done;
  }

  /** Say that there are edits that are not saved. */
  showDrafts() {
    const drafted = draftedSegments(this.id);
    const box = byId("review-drafts");
    say(box.querySelector("span"), drafted.length ? t("review.drafts", { count: drafted.length }) : "");
    box.hidden = !drafted.length;
  }

  /** Go to the next segment that has such an edit; after the last comes the first. */
  async goToDraft() {
    const drafted = draftedSegments(this.id);
    const n = drafted.find((one) => one > this.list.current) ?? drafted[0];
    await this.goTo(n);
  }

  /** Go to the segment that the address names. */
  async goToWanted() {
    const n = this.wanted;
    this.wanted = null;
    if (n !== null && n < this.list.total) await this.goTo(n);
  }

  /** Go to a segment; where a search leaves it out, that ends. */
  async goTo(n) {
    const { list } = this;
    if (list.numberAt(list.placeOf(n)) !== n) {
      this.find.clear();
      list.show(null);
    }
    await list.goTo(n);
  }

  /** Ask again, when a document is shown. */
  retry() {
    if (!this.id) return;
    this.report();
    this.feed.ask();
  }

  async step(direction) {
    if (!this.list || this.next.disabled) return;
    try {
      const found = await this.list.goToDoubtful(direction);
      if (found) say(byId("doubtful-count"), t("review.doubtful_at", { at: found.at + 1, count: found.total }));
    } catch (error) {
      this.report(error);
    }
  }

  lost(error) {
    this.isLost = error.unavailable; // until it answers
    if (!error.unavailable) this.feed.stop();
    if (error.code === "unknown_document") dropLostDrafts(this.id);
    this.report(error);
  }

  report(error) {
    this.notes.replaceChildren();
    if (!error) return;
    const note = el("p", { class: "fault" });
    this.notes.append(note);
    showFault(note, error);
  }
}

/** A remark on the file; those without a code are the server's words. */
const remarkOf = (warning) => (has(`warning.${warning.code}`) ? warningOf(warning) : el("span", { lang: "en" }, warning.message));

const whyLeft = (reason) => (has(`left.${reason}`) ? t("review.left_because", { reason: t(`left.${reason}`) }) : t("review.left"));

/** A time in seconds since 1970, or in ISO 8601. */
const timeOf = (time) => new Date(typeof time === "number" ? 1000 * time : time);
