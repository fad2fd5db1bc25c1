/** Searching the segments of a document on the server, and replacing what is found after a look at it. */

import { byId, el, say } from "./dom.js";
import { count } from "./format.js";
import { t } from "./i18n.js";
import { mark } from "./languages.js";
import { rendered } from "./marks.js";
import * as server from "./server.js";

const PAUSE_MS = 300; // after the last letter
const MOST_PREVIEWED = 1000; // replacements in one step

export class Find {
  /**
   * @param {{onFound: (numbers: number[] | null, find: string) => void, onReplaced: (segments: object[]) => void,
   *   onError: (error: Error) => void}} listener
   */
  constructor({ onFound, onReplaced, onError }) {
    this.id = null;
    this.onFound = onFound;
    this.onReplaced = onReplaced;
    this.onError = onError;
    this.text = byId("find-text");
    this.kind = byId("find-kind");
    this.case = byId("find-case");
    this.status = byId("found-count");
    this.panel = byId("replace");
    this.replacement = byId("replacement");
    this.preview = byId("replacements");
    this.opener = byId("replace-open");
    this.apply = byId("replace-apply");
    this.undo = byId("replace-undo");
    this.listen();
  }

  listen() {
    this.text.addEventListener("input", (event) => event.isComposing || this.later());
    this.text.addEventListener("compositionend", () => this.later());
    for (const control of [this.kind, this.case]) control.addEventListener("change", () => this.search());
    byId("find").addEventListener("submit", (event) => {
      event.preventDefault();
      this.search();
    });
    this.opener.addEventListener("click", () => this.toggle(this.panel.hidden));
    this.panel.addEventListener("submit", (event) => {
      event.preventDefault();
      this.look();
    });
    this.preview.addEventListener("change", () => this.describe());
    this.apply.addEventListener("click", () => this.replace());
    this.undo.addEventListener("click", () => this.edit(this.reverse));
  }

  /** Begin with a document, without a search. @param {string} target language */
  open(id, target) {
    this.id = id;
    this.target = target;
    this.clear();
  }

  get isActive() {
    return Boolean(this.text.value || this.kind.value);
  }

  /** Forget what is searched for; the listener is not told. */
  clear() {
    this.stop();
    this.text.value = this.kind.value = "";
    this.case.checked = false;
    say(this.status, "");
    this.toggle(false);
  }

  stop() {
    clearTimeout(this.timer);
    this.timer = null;
    this.asking?.abort();
    this.forget();
  }

  later() {
    this.stop();
    this.timer = setTimeout(() => this.search(), PAUSE_MS);
  }

  /** What is searched for, as the server wants it. */
  get query() {
    return { find: this.text.value, match_case: this.case.checked, ...(this.kind.value && { kind: this.kind.value }) };
  }

  async search() {
    this.stop();
    const { find } = this.query;
    if (!this.isActive) {
      say(this.status, "");
      return this.onFound(null, "");
    }
    const asking = (this.asking = new AbortController());
    try {
      const numbers = await server.findSegments(this.id, this.query, asking.signal);
      say(this.status, t("count.segments", { count: numbers.length }));
      this.onFound(numbers, find);
    } catch (error) {
      if (!asking.signal.aborted) this.onError(error);
    }
  }

  // ---- replacing

  toggle(shown) {
    this.panel.hidden = !shown;
    this.opener.setAttribute("aria-expanded", String(shown));
    this.forget();
    if (shown) (this.text.value ? this.replacement : this.text).focus();
  }

  /** No replacements are offered, nor will those be that are asked for. */
  forget() {
    this.looking?.abort();
    this.changes = [];
    this.preview.replaceChildren();
    this.apply.hidden = this.undo.hidden = true;
    say(byId("replace-status"), "");
  }

  /** Show what would be changed. */
  async look() {
    if (this.timer) this.search(); // not after the look: a search ends it
    this.forget();
    const { find, ...rest } = this.query;
    if (!find) return this.text.focus();
    const body = { find, ...rest, replacement: this.replacement.value };
    const looking = (this.looking = new AbortController());
    try {
      this.changes = await server.replacements(this.id, body, MOST_PREVIEWED, looking.signal);
    } catch (error) {
      if (!looking.signal.aborted) this.onError(error);
      return;
    }
    this.preview.replaceChildren(...this.changes.map((change) => this.item(change, find)));
    this.describe();
  }

  item({ segment, replaced }, find) {
    const box = el("input", { type: "checkbox" });
    box.checked = true;
    const before = el("del", {}, ...rendered(segment.translation, segment.looks, find));
    const after = el("ins", {}, ...rendered(replaced, segment.looks, this.replacement.value));
    for (const text of [before, after]) mark(text, this.target);
    return el("li", {}, el("label", {}, box, el("span", { class: "figure" }, count(segment.n + 1)), el("span", { class: "change" }, before, after)));
  }

  get chosen() {
    const boxes = [...this.preview.querySelectorAll("input")];
    return this.changes.filter((_, at) => boxes[at].checked);
  }

  describe() {
    const { length } = this.chosen;
    this.apply.hidden = !this.changes.length;
    this.apply.disabled = !length;
    say(this.apply, t("review.replace_in", { count: length }));
    say(byId("replace-status"), this.changes.length ? t("review.changes", { count: this.changes.length }) + this.more : t("review.changes_none"));
  }

  /** That those which are previewed are not all. */
  get more() {
    return this.changes.length === MOST_PREVIEWED ? ` ${t("review.more_changes")}` : "";
  }

  replace() {
    return this.edit(this.chosen.map(({ segment: { n, translation, reviewed }, replaced }) => ({ n, translation: replaced, was: translation, reviewed })));
  }

  /** Change segments, and offer to take that back. */
  async edit(edits) {
    const hadFocus = this.panel.contains(document.activeElement);
    this.apply.disabled = this.undo.disabled = true;
    const { more } = this;
    try {
      const { segments, conflicts } = await server.editSegments(this.id, edits);
      this.forget();
      const others = conflicts.length ? ` ${t("review.conflicts", { count: conflicts.length })}` : "";
      say(byId("replace-status"), t("review.replaced", { count: segments.length }) + others + more);
      const changed = edits.filter(({ n }) => !conflicts.includes(n));
      this.reverse = changed.map(({ n, translation, was, reviewed }) => ({ n, translation: was, was: translation, reviewed }));
      this.undo.hidden = !changed.length;
      this.onReplaced(segments);
    } catch (error) {
      this.apply.disabled = false;
      this.onError(error);
    } finally {
      this.undo.disabled = false;
      if (hadFocus && document.activeElement === document.body) (this.undo.hidden ? this.replacement : this.undo).focus();
    }
  }
}
