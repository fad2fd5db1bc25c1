/**
 * The segments of a document, in pages that are loaded when they come into sight and emptied when they are out of it: a file
 * of 10,000 segments has a few hundred elements in the page.
 */

import { el } from "./dom.js";
import { Segment } from "./segment.js";
import * as server from "./server.js";

const PER_PAGE = 50;
const ESTIMATED_ROW_REM = 5;
const NEARBY = "1200px 0px"; // what is loaded before it is seen

export class SegmentList {
  /**
   * @param {HTMLElement} box a table for assistive technology
   * @param {{id: string, source: string | null, target: string, languages: import("./languages.js").Languages}} about the document
   * @param {number} total segments
   * @param {{onEdited: () => void, onDraft: () => void}} listener told of what was saved, and of what is typed and not saved
   */
  constructor(box, about, total, { onEdited, onDraft }) {
    this.box = box;
    this.about = about;
    this.onEdited = onEdited;
    this.onDraft = onDraft;
    this.closed = new AbortController();
    this.current = -1;
    this.pages = Array.from({ length: Math.ceil(total / PER_PAGE) }, (_, at) => new Page(this, at, Math.min(PER_PAGE, total - at * PER_PAGE)));
    const heads = ["Place", about.source ? about.languages.name(about.source) : "Source", about.languages.name(about.target)];
    const head = el("div", { role: "row", class: "head" }, ...heads.map((name) => el("span", { role: "columnheader" }, name)));
    box.setAttribute("aria-rowcount", String(total + 1));
    box.replaceChildren(el("div", { role: "rowgroup" }, head), ...this.pages.map(({ element }) => element));
    box.addEventListener("focusin", ({ target }) => (this.current = Number(target.closest(".segment")?.dataset.n ?? this.current)), { signal: this.closed.signal });
    this.observer = new IntersectionObserver((entries) => this.seen(entries), { rootMargin: NEARBY });
    for (const page of this.pages) this.observer.observe(page.element);
  }

  /** Segments can be edited when all of them are translated. */
  allowEdits(allowed) {
    this.box.toggleAttribute("data-editable", allowed);
  }

  close() {
    this.observer.disconnect();
    this.closed.abort();
  }

  seen(entries) {
    for (const { target, isIntersecting } of entries) {
      const page = this.pages[Number(target.dataset.page)];
      if (isIntersecting) page.fill();
      else page.empty();
    }
  }

  /** Load again what may have been translated meanwhile. */
  refresh() {
    for (const page of this.pages) page.refresh();
  }

  /** `{segments, total, doubtful_total}` */
  load(query) {
    return server.segments(this.about.id, query, this.closed.signal);
  }

  /** Some segments were changed: show what is in sight of them. */
  changed(segments) {
    for (const segment of segments) this.pages[Math.floor(segment.n / PER_PAGE)].rows.get(segment.n)?.show(segment);
    this.onEdited();
  }

  /** Focus the next doubtful segment, or the one before; after the last comes the first. `{at, total}` tells which it is. */
  async goToDoubtful(direction) {
    const { below, total } = await this.doubtfulBelow(direction > 0 ? this.current + 1 : this.current);
    if (!total) return null;
    const at = (direction > 0 ? below : below - 1 + total) % total;
    const { segments } = await this.load({ doubtful: true, offset: at, limit: 1 });
    if (!segments.length) return null;
    await this.goTo(segments[0].n);
    return { at, total };
  }

  /** How many doubtful segments have a number below `bound`, and how many there are: the pages of them are halved. */
  async doubtfulBelow(bound) {
    let [low, high, offset] = [0, null, 0];
    for (;;) {
      const { segments, doubtful_total: total } = await this.load({ doubtful: true, offset, limit: PER_PAGE });
      high ??= total;
      const within = segments.filter(({ n }) => n < bound).length;
      if (within === 0) high = offset;
      else low = offset + within;
      if (low >= high || (within > 0 && within < segments.length)) return { below: low, total };
      offset = low + Math.floor((high - low) / 2);
    }
  }

  async goTo(n) {
    const page = this.pages[Math.floor(n / PER_PAGE)];
    await page.fill();
    const row = page.rows.get(n);
    this.current = n;
    row.element.scrollIntoView({ block: "center" });
    row.element.focus({ preventScroll: true });
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
    this.element = el("div", { role: "rowgroup", class: "page", "data-page": String(at) });
    this.element.style.minHeight = `${length * ESTIMATED_ROW_REM}rem`;
  }

  /** Resolves when its segments are there. */
  fill() {
    this.loading ??= this.load();
    return this.loading;
  }

  async load() {
    const { segments } = await this.list.load({ offset: this.at * PER_PAGE, limit: this.length });
    if (!this.loading) return; // emptied meanwhile
    for (const segment of segments) {
      const known = this.rows.get(segment.n);
      if (known) known.show(segment);
      else this.add(segment);
    }
    this.element.style.minHeight = "";
  }

  add(segment) {
    const row = new Segment(segment, this.list.about, (changed) => this.list.changed(changed), this.list.onDraft);
    this.rows.set(segment.n, row);
    this.element.append(row.element);
  }

  refresh() {
    if (this.loading && [...this.rows.values()].some(({ pending }) => pending)) this.loading = this.load();
  }

  empty() {
    if (!this.loading || this.element.contains(document.activeElement) || [...this.rows.values()].some(({ editing }) => editing)) return;
    if (this.rows.size) this.element.style.minHeight = `${this.element.offsetHeight}px`;
    this.loading = null;
    this.rows.clear();
    this.element.replaceChildren();
  }
}
