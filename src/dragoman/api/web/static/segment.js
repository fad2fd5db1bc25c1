/** One segment: source and translation side by side, why it is doubtful, and what can be done with it. */

import { byId, el, say, svg } from "./dom.js";
import { draftOf, dropDraft, keepDraft } from "./drafts.js";
import { Editor, button } from "./editor.js";
import { showFault, warningOf } from "./faults.js";
import { certainty, count } from "./format.js";
import { t } from "./i18n.js";
import { mark } from "./languages.js";
import { rendered } from "./marks.js";
import { placeName } from "./places.js";
import * as server from "./server.js";

export class Segment {
  /**
   * @param {object} segment as the server has it
   * @param {{id: string, source: string | null, target: string, find: string}} about the document, and what is searched in it
   * @param {{onChanged: (segments: object[]) => void, onDraft: () => void, onNext: (n: number, edit: boolean) => void}} listener
   *   told of what was saved, of an edit that is kept and not saved, or no longer, and that the reader goes on to the next one
   */
  constructor(segment, about, { onChanged, onDraft, onNext }) {
    this.about = about;
    this.onChanged = onChanged;
    this.onDraft = onDraft;
    this.onNext = onNext;
    this.editor = null;
    this.number = count(segment.n + 1);
    const source = el("div", { role: "cell", class: "source" }, ...rendered(segment.source, segment.looks, about.find));
    mark(source, about.source ?? "");
    this.text = el("p", { class: "text" });
    this.pencil = button(pencil(), () => this.edit(), { class: "icon pencil", "aria-label": t("segment.edit", { n: this.number }) });
    this.tick = button(tick(), () => this.review(!this.segment.reviewed), { class: "icon tick", "aria-label": t("segment.is_reviewed", { n: this.number }) });
    this.reasons = el("div", { class: "reasons" });
    this.cell = el("div", { role: "cell", class: "translation" }, this.text, this.pencil, this.tick, this.reasons);
    const link = el("a", { href: `#documents/${encodeURIComponent(about.id)}/${segment.n + 1}`, tabindex: "-1" }, this.number);
    const place = el("div", { role: "cell", class: "place figure" }, el("b", {}, link), el("span", {}, placeName(segment.place)));
    const row = { role: "row", class: "segment", tabindex: "-1", "aria-rowindex": String(segment.n + 2), "data-n": String(segment.n) };
    this.element = el("div", row, place, source, this.cell);
    this.element.addEventListener("keydown", (event) => this.pressed(event));
    this.text.addEventListener("click", () => getSelection().isCollapsed && this.edit());
    this.show(segment);
  }

  get editing() {
    return this.editor !== null;
  }

  get editable() {
    return !this.pending && this.element.closest("[data-editable]") !== null;
  }

  /** Whether it waits for its translation. */
  get pending() {
    return this.segment.translation === null;
  }

  show(segment) {
    const before = this.segment;
    this.segment = segment;
    if (JSON.stringify(segment) === JSON.stringify(before)) return;
    this.element.toggleAttribute("data-doubted", segment.doubtful);
    this.element.toggleAttribute("data-edited", segment.edited);
    this.element.toggleAttribute("data-reviewed", segment.reviewed);
    mark(this.text, this.about.target);
    this.text.replaceChildren(...(this.pending ? ["…"] : rendered(segment.translation, segment.looks, this.about.find)));
    this.pencil.hidden = this.pending || this.editing;
    this.tick.hidden = this.pending;
    this.tick.setAttribute("aria-pressed", String(segment.reviewed));
    this.explain(segment);
    if (this.editing && segment.translation !== before.translation) this.editor.rebase(before.translation);
  }

  /** Why it is as it is, and that it has an edit that is not saved. */
  explain(segment) {
    this.describe(segment);
    if (!this.pending && draftOf(this.about.id, segment.n)) this.reasons.prepend(this.draft());
  }

  draft() {
    const tools = el("span", { class: "tools" }, button(t("segment.go_on"), () => this.edit()), button(t("segment.discard"), () => this.discard()));
    return el("div", { class: "draft" }, t("segment.draft"), tools);
  }

  /** Forget what was typed; while the segment stays as it is, it can be had back. */
  discard() {
    const { id } = this.about;
    const { n, translation } = this.segment;
    const typed = this.editor?.field.value ?? draftOf(id, n)?.text ?? translation;
    dropDraft(id, n);
    this.leave();
    if (typed !== translation) this.offerTyped(typed);
  }

  offerTyped(typed) {
    const again = button(t("entries.undo"), () => {
      keepDraft(this.about.id, this.segment.n, typed, this.segment.translation);
      this.explain(this.segment);
      this.onDraft();
      this.edit();
    });
    this.reasons.prepend(el("div", { class: "draft" }, t("segment.discarded"), el("span", { class: "tools" }, again)));
  }

  describe({ doubtful, edited, reviewed, memory, examples, machine, warnings, confidence }) {
    const notes = [edited ? t("segment.edited") : "", reviewed ? t("segment.reviewed") : "", memory ? t("segment.memory") : "", examples ? t("segment.examples") : ""];
    const note = notes.filter(Boolean).join(", ");
    const reasons = doubtful ? warnings.map((warning) => el("p", {}, el("span", { class: "warning" }, warningOf(warning)))) : [];
    const sure = certainty({ confidence, confidence_kind: this.about.confidenceKind });
    if (sure) reasons.at(-1)?.append(` · ${sure}`);
    const tools = el("p", { class: "tools" });
    if (doubtful) tools.append(button(t("segment.accept"), () => this.review(true)), button(t("segment.alternatives"), () => this.edit()?.offer()));
    if (machine !== null) tools.append(button(t("segment.restore"), () => this.restore()));
    this.reasons.replaceChildren(...reasons, ...(note ? [el("p", {}, note)] : []), ...(tools.children.length ? [tools] : []));
    if (edited || reviewed) this.offerSimilar(tools);
  }

  /** A person approved it: where the model can learn from that, the segments similar to it can be translated again. */
  async offerSimilar(tools) {
    const { firstChild } = this.reasons;
    if (!(await server.takesExamples().catch(() => false)) || this.reasons.firstChild !== firstChild) return;
    const again = button(t("segment.similar"), () => this.translateSimilar(again));
    tools.append(again);
    this.reasons.append(tools);
  }

  async translateSimilar(again) {
    again.disabled = true;
    await this.attempt(async () => {
      const changed = await server.translateSimilar(this.about.id, this.segment.n);
      this.onChanged(changed);
      say(byId("announcement"), t("segment.translated_again", { count: changed.length }));
    });
    again.disabled = false;
  }

  /** Do something; say why the server did not. */
  async attempt(action) {
    try {
      await action();
    } catch (error) {
      const note = el("p", { class: "fault", role: "alert" });
      this.reasons.prepend(note);
      showFault(note, error);
    }
  }

  pressed(event) {
    if (event.key !== "Enter" || event.target !== this.element) return;
    event.preventDefault();
    if (!event.ctrlKey && !event.metaKey) this.edit();
    else if (this.editable) this.review(true).then((done) => done && this.onNext(this.segment.n, false));
  }

  /**
   * Change it on the server, unless another person has since it was shown: then that is shown. Returns what was changed.
   * What is there as it is wanted was changed by this page, and the answer was lost.
   */
  async change(body) {
    const { id } = this.about;
    const { n, translation } = this.segment;
    const changed = await server.editSegment(id, n, { ...body, was: translation });
    if (changed.length) return changed;
    const { segments } = await server.segments(id, [["n", n]]);
    if (segments[0]?.translation === body.translation) return server.editSegment(id, n, { ...body, was: body.translation });
    this.onChanged(segments);
    return [];
  }

  /** It is right as it is, or has to be looked at again. Returns whether that is so now. */
  async review(reviewed) {
    let changed = [];
    await this.attempt(async () => {
      changed = await this.change({ reviewed });
      if (changed.length) this.onChanged(changed);
      else this.reasons.prepend(el("p", { class: "fault", role: "alert" }, t("segment.changed_since")));
    });
    return changed.length > 0;
  }

  /** Take back what people have changed. */
  restore() {
    const body = { translation: this.segment.machine, reviewed: false };
    return this.attempt(async () => {
      this.onChanged(await this.change(body));
      this.element.focus({ preventScroll: true });
    });
  }

  /** Open the editor, which is returned. */
  edit() {
    if (!this.editable || this.editing) return this.editor;
    this.editor = new Editor(this);
    this.cell.dataset.editing = "";
    this.pencil.hidden = true;
    this.cell.append(this.editor.element);
    this.editor.open();
    return this.editor;
  }

  /** Save what was typed, and close the editor; nothing is saved where another person has changed it since. */
  async save(translation, { allEqual, next }) {
    const changed = await this.change({ translation, all_equal: allEqual });
    if (!changed.length) return;
    dropDraft(this.about.id, this.segment.n);
    this.leave();
    this.onChanged(changed);
    say(byId("announcement"), t("segment.saved", { count: changed.length }));
    if (next) this.onNext(this.segment.n, true);
  }

  /** Close the editor, if there is one. */
  leave() {
    this.editor?.element.remove();
    this.editor = null;
    delete this.cell.dataset.editing;
    this.pencil.hidden = this.pending;
    this.explain(this.segment);
    this.onDraft();
    this.element.focus({ preventScroll: true });
  }
}

const icon = (d) => svg("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d }));
const pencil = () => icon("M4 16l1-4 8-8 3 3-8 8-4 1zM11 6l3 3");
const tick = () => icon("M4 11l4 4 8-10");
