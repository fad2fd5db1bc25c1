/**
 * The segments of a document, or those that were found, in pages that are loaded when they come into sight and emptied when they
 * are out of it: a file of 20,000 segments has a few hundred elements in the page.
 */

import { el } from "./dom.js";
import { t } from "./i18n.js";
import { Segment } from "./segment.js";
import * as server from "./server.js";

const PER_PAGE = 50;
const ESTIMATED_ROW_REM = 5;
const NEARBY = "1200px 0px"; // what is loaded before it is seen
const RETRY_S = 1;

export class SegmentList {
  /**
   * @param {HTMLElement} box a table for assistive technology
   * @param {{id: string, source: string | null, target: string, languages: import("./languages.js").Languages}} about the document
   * @param {number} total segments
   * @param {{onEdited: () => void, onDraft: () => void, onCurrent: (n: number) => void, onLost: (error: Error) => void}} listener
   *   told of what was saved, of what is typed and not saved, which segment the reader is at, and why some cannot be shown
   */
  constructor(box, about, total, { onEdited, onDraft, onCurrent, onLost }) {
    this.box = box;
    this.about = { ...about, find: "" };
    this.total = total;
    this.onEdited = onEdited;
    this.onDraft = onDraft;
    this.onLost = onLost;
    this.closed = new AbortController();
    this.current = -1;
    this.observer = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: NEARBY });
    const { signal } = this.closed;
    box.addEventListener("focusin", ({ target }) => this.focused(target.closest(".segment"), onCurrent), { signal });
    box.addEventListener("keydown", (event) => this.pressed(event), { signal });
    addEventListener("storage", () => this.keepTyped(), { signal });
    this.show(null);
  }

  /** Show the segments with these numbers, ascending; null: all. @param {number[] | null} numbers @param {string} find in their texts */
  show(numbers, find = "") {
    this.numbers = numbers;
    this.about = { ...this.about, find };
    this.observer.disconnect();
    const { source, target, languages } = this.about;
    const heads = [t("review.place"), source ? languages.name(source) : t("review.source"), languages.name(target)];
    const head = el("div", { role: "row", class: "head" }, ...heads.map((name) => el("span", { role: "columnheader" }, name)));
    this.pages = Array.from({ length: Math.ceil(this.length / PER_PAGE) }, (_, at) => new Page(this, at, Math.min(PER_PAGE, this.length - at * PER_PAGE)));
    this.box.setAttribute("aria-rowcount", String(this.total + 1));
    this.box.replaceChildren(el("div", { role: "rowgroup" }, head), ...this.pages.map(({ element }) => element));
    for (const page of this.pages) this.observer.observe(page.element);
  }

  /** How many are shown. */
  get length() {
    return this.numbers?.length ?? this.total;
  }

  /** The number of the segment at a place of those that are shown. */
  numberAt(place) {
    return this.numbers ? this.numbers[place] : place;
  }

  /** The place of a segment among those that are shown, or of the next one behind it. */
  placeOf(n) {
    if (!this.numbers) return n;
    let [low, high] = [0, this.numbers.length];
    while (low < high) {
      const middle = (low + high) >> 1;
      if (this.numbers[middle] < n) low = middle + 1;
      else high = middle;
    }
    return low;
  }

  /** Another tab has changed what the browser keeps: drafts of what is typed here are still among it. */
  keepTyped() {
    for (const { rows } of this.pages) for (const { editor } of rows.values()) editor?.keepUnlessKept();
  }

  /** Segments can be edited when all of them are translated. */
  allowEdits(allowed) {
    this.box.toggleAttribute("data-editable", allowed);
  }

  /** How the confidence of its segments is meant, which is known when all are translated. @param {"calibrated" | "rank" | null} kind */
  takeConfidenceAs(kind) {
    if (this.about.confidenceKind === kind) return;
    this.about.confidenceKind = kind;
    for (const { rows } of this.pages) for (const row of rows.values()) row.explain(row.segment);
  }

  close() {
    this.observer.disconnect();
    this.closed.abort();
  }

  seen(entries) {
    for (const { target, isIntersecting } of entries) {
      const page = this.pages[Number(target.dataset.page)];
      if (isIntersecting) page?.fill().catch((error) => this.lost(error));
      else page?.empty();
    }
  }

  /** Segments in sight could not be loaded: they are when the server answers again. */
  async lost(error) {
    if (this.closed.signal.aborted) return;
    this.onLost(error);
    if (!error.unavailable || this.isLost) return;
    this.isLost = true;
    const { signal } = this.closed;
    const pause = server.pause(RETRY_S, signal); // a server that is ready may fail for these segments alone
    await pause.then(() => server.untilReady(signal, () => {})).catch((other) => this.lost(other));
    this.isLost = false;
    if (this.closed.signal.aborted) return;
    this.observer.disconnect(); // it reports anew what is in sight
    for (const page of this.pages) this.observer.observe(page.element);
    this.onEdited(); // by others, maybe
  }

  focused(row, onCurrent) {
    if (!row || Number(row.dataset.n) === this.current) return;
    this.current = Number(row.dataset.n);
    onCurrent(this.current);
  }

  /** Arrows go from row to row. */
  pressed(event) {
    const step = { ArrowDown: 1, ArrowUp: -1 }[event.key];
    if (!step || event.altKey || event.ctrlKey || event.metaKey || !event.target.matches(".segment")) return;
    event.preventDefault();
    const place = this.placeOf(this.current) + step;
    if (place >= 0 && place < this.length) this.goTo(this.numberAt(place));
  }

  /** Load again what may have been translated meanwhile. */
  refresh() {
    for (const page of this.pages) page.refresh();
  }

  /** The segments of some of the places that are shown. */
  async load(first, length) {
    const query = this.numbers ? this.numbers.slice(first, first + length).map((n) => ["n", n]) : { offset: first, limit: length };
    return (await server.segments(this.about.id, query, this.closed.signal)).segments;
  }

  /** Some segments were changed: show what is in sight of them. */
  changed(segments) {
    for (const segment of segments) this.pages[Math.floor(this.placeOf(segment.n) / PER_PAGE)]?.take(segment);
    this.onEdited();
  }

  /** Focus the next doubtful segment, or the one before; after the last comes the first. `{at, total}` tells which it is. */
  async goToDoubtful(direction) {
    const { signal } = this.closed;
    const numbers = (await server.findSegments(this.about.id, { kind: "doubtful" }, signal)).filter((n) => this.numberAt(this.placeOf(n)) === n);
    const total = numbers.length;
    if (!total) return null;
    const below = numbers.filter((n) => n < (direction > 0 ? this.current + 1 : this.current)).length;
    const at = (direction > 0 ? below : below - 1 + total) % total;
    await this.goTo(numbers[at]);
    return { at, total };
  }

  /** Go on to the segment behind one, and open its editor; the last stays where it is. */
  async goToNext(n, edit) {
    const place = this.placeOf(n + 1);
    if (place >= this.length) return;
    const row = await this.goTo(this.numberAt(place));
    if (edit) row?.edit();
  }

  /** Focus a segment that is shown; returns its row. */
  async goTo(n) {
    const page = this.pages[Math.floor(this.placeOf(n) / PER_PAGE)];
    if (!page) return null;
    page.isAwaited = true; // it is out of sight until it is scrolled to
    await page.fill().catch((error) => this.lost(error));
    const row = page.rows.get(n);
    row?.element.scrollIntoView({ block: "center" });
    row?.element.focus({ preventScroll: true });
    page.isAwaited = false;
    return row;
  }
}

/** Consecutive segments. Out of sight it is as high as it was, and empty. */
class Page {
  constructor(list, at, length) {
    this.list = list;
    this.at = at;
    this.length = length;
    this.rows = new Map();
    this.loading = null;
    this.answers = new Set(); // that are on their way, each with the segments that were changed meanwhile
    this.isAwaited = false;
    this.element = el("div", { role: "rowgroup", class: "page", "data-page": String(at) });
    this.element.style.minHeight = `${length * ESTIMATED_ROW_REM}rem`;
  }

  /** Resolves when its segments are there. */
  fill() {
    if (this.loading) return this.loading;
    const loading = this.load().catch((error) => {
      if (this.loading === loading) this.loading = null; // to be tried again
      throw error;
    });
    return (this.loading = loading);
  }

  async load() {
    const changed = new Map();
    this.answers.add(changed);
    const segments = await this.list.load(this.at * PER_PAGE, this.length).finally(() => this.answers.delete(changed));
    if (!this.loading) return; // emptied meanwhile
    for (const one of segments) {
      const segment = changed.get(one.n) ?? one;
      const known = this.rows.get(segment.n);
      if (known) known.show(segment);
      else this.add(segment);
    }
    this.element.style.minHeight = "";
  }

  /** A segment that was changed; an answer that is on its way may have it as it was before. */
  take(segment) {
    for (const changed of this.answers) changed.set(segment.n, segment);
    this.rows.get(segment.n)?.show(segment);
  }

  add(segment) {
    const { list } = this;
    const listener = { onChanged: (changed) => list.changed(changed), onDraft: list.onDraft, onNext: (n, edit) => list.goToNext(n, edit) };
    const row = new Segment(segment, list.about, listener);
    this.rows.set(segment.n, row);
    this.element.append(row.element);
  }

  refresh() {
    if (!this.loading || ![...this.rows.values()].some(({ pending }) => pending)) return;
    this.loading = null;
    this.fill().catch((error) => this.list.lost(error));
  }

  empty() {
    if (!this.loading || this.isAwaited || this.element.contains(document.activeElement) || [...this.rows.values()].some(({ editing }) => editing)) return;
    if (this.rows.size) this.element.style.minHeight = `${this.element.offsetHeight}px`;
    this.loading = null;
    this.rows.clear();
    this.element.replaceChildren();
  }
}
