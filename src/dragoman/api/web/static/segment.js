/** One segment: source and translation side by side, why it is doubtful, and the box in which it is edited. */

import { byId, el, say, svg } from "./dom.js";
import { draftOf, dropDraft, keepDraft } from "./drafts.js";
import { count } from "./format.js";
import { mark } from "./languages.js";
import * as server from "./server.js";

const MARK = /(<\/?g\d+>|<x\d+\/>)/;
const ALTERNATIVES = 3;
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });
const percent = (confidence) => `confidence ${Math.round(100 * confidence)} %`;

/** A text with its marks (formatting, line breaks, placeholders of the file) set apart from the words. */
function withMarks(text) {
  return text.split(MARK).map((part, at) => (at % 2 ? el("span", { class: "mark" }, part) : part));
}

const marksOf = (text) => text.split(MARK).filter((_, at) => at % 2);

function button(title, onClick, attributes = {}) {
  const made = el("button", { type: "button", ...attributes }, title);
  made.addEventListener("click", onClick);
  return made;
}

export class Segment {
  /**
   * @param {object} segment as the server has it
   * @param {{id: string, source: string | null, target: string}} about the document
   * @param {(segments: object[]) => void} onChanged
   * @param {() => void} onDraft an edit is kept that is not saved, or no longer
   */
  constructor(segment, about, onChanged, onDraft) {
    this.about = about;
    this.onChanged = onChanged;
    this.onDraft = onDraft;
    this.editor = null;
    this.number = count(segment.n + 1);
    const source = el("div", { role: "cell", class: "source" }, ...withMarks(segment.source));
    mark(source, about.source ?? "");
    this.text = el("p", { class: "text" });
    this.pencil = button(pencil(), () => this.edit(), { class: "icon", "aria-label": `Edit segment ${this.number}` });
    this.reasons = el("div", { class: "reasons" });
    this.cell = el("div", { role: "cell", class: "translation" }, this.text, this.pencil, this.reasons);
    const place = el("div", { role: "cell", class: "place figure" }, el("b", {}, this.number), el("span", {}, segment.place));
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
    return !this.pending && !this.editing && this.element.closest("[data-editable]") !== null;
  }

  /** Whether it waits for its translation. */
  get pending() {
    return this.segment.translation === null;
  }

  show(segment) {
    const same = JSON.stringify(segment) === JSON.stringify(this.segment);
    this.segment = segment;
    if (same) return;
    this.element.toggleAttribute("data-doubted", segment.doubtful);
    this.element.toggleAttribute("data-edited", segment.edited);
    mark(this.text, this.about.target);
    this.text.replaceChildren(...(this.pending ? ["…"] : withMarks(segment.translation)));
    this.pencil.hidden = this.pending || this.editing;
    this.explain(segment);
  }

  /** Why it is as it is, and that it has an edit that is not saved. */
  explain(segment) {
    this.describe(segment);
    if (!this.pending && draftOf(this.about.id, segment.n)) this.reasons.prepend(this.draft());
  }

  draft() {
    const tools = el("span", { class: "tools" }, button("Go on editing", () => this.edit()), button("Discard", () => this.discard()));
    return el("div", { class: "draft" }, "Edited, not saved", tools);
  }

  /** Forget what was typed. */
  discard() {
    dropDraft(this.about.id, this.segment.n);
    this.leave();
  }

  describe({ doubtful, edited, memory, warnings, confidence }) {
    if (edited) return this.offerSimilar();
    if (memory && !doubtful) return this.reasons.replaceChildren(el("p", {}, "from the translation memory"));
    if (!doubtful) return this.reasons.replaceChildren();
    const reasons = warnings.map(({ message }) => el("p", {}, el("span", { class: "warning" }, message)));
    if (confidence !== null) reasons.at(-1)?.append(` · ${percent(confidence)}`);
    const tools = el("p", { class: "tools" }, button("Accept", () => this.accept()), button("Alternatives", () => this.edit()?.offer()));
    this.reasons.replaceChildren(...reasons, tools);
  }

  /** It is edited: where the model can learn from that, the segments similar to it can be translated again. */
  async offerSimilar() {
    const note = el("p", {}, "edited");
    this.reasons.replaceChildren(note);
    if (!(await server.takesExamples().catch(() => false)) || note.parentElement !== this.reasons) return;
    const again = button("Translate similar segments again", () => this.translateSimilar(again));
    this.reasons.append(el("p", { class: "tools" }, again));
  }

  async translateSimilar(again) {
    again.disabled = true;
    try {
      const changed = await server.translateSimilar(this.about.id, this.segment.n);
      this.onChanged(changed);
      say(byId("announcement"), `${changed.length} translated again`);
    } catch (error) {
      this.reasons.prepend(el("p", { class: "fault", role: "alert" }, error.sentence ?? error.message));
    }
    again.disabled = false;
  }

  pressed(event) {
    if (event.key !== "Enter" || event.target !== this.element) return;
    event.preventDefault();
    this.edit();
  }

  /** It is right as it is. */
  accept() {
    return this.save(this.segment.translation, false).catch((error) => {
      this.reasons.prepend(el("p", { class: "fault", role: "alert" }, error.sentence ?? error.message));
    });
  }

  /** Open the editor, which is returned. */
  edit() {
    if (!this.editable) return;
    this.editor = new Editor(this);
    this.cell.dataset.editing = "";
    this.pencil.hidden = true;
    this.cell.append(this.editor.element);
    this.editor.open();
    return this.editor;
  }

  async save(translation, allEqual) {
    const changed = await server.editSegment(this.about.id, this.segment.n, translation, allEqual);
    dropDraft(this.about.id, this.segment.n);
    this.leave();
    this.onChanged(changed);
    say(byId("announcement"), `${changed.length} saved`);
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

/** The box in which a translation is edited. */
class Editor {
  constructor(row) {
    this.row = row;
    const { segment, number, about } = row;
    this.field = el("textarea", { rows: "2", "aria-label": `Translation of segment ${number}` });
    const draft = draftOf(about.id, segment.n);
    this.field.value = draft?.text ?? segment.translation;
    this.field.addEventListener("input", () => this.keep());
    mark(this.field, about.target);
    this.fault = el("div", { role: "alert" });
    this.others = el("div", { class: "others" });
    const marks = marksOf(segment.source).map((one) => button(one, () => this.insert(one), { class: "mark", "aria-label": `Insert ${one}` }));
    const save = button("Save", () => this.save(false), { class: "primary", "aria-keyshortcuts": "Control+Enter" });
    const equal = segment.equal ? [button(`Save in ${count(segment.equal + 1)} equal segments`, () => this.save(true))] : [];
    this.more = button("Alternatives", () => this.offer());
    const tools = [save, ...equal, this.more, button("Cancel", () => row.discard())];
    this.element = el(
      "div",
      { class: "editor" },
      ...(draft ? [this.remind(draft)] : []),
      this.field,
      ...(marks.length ? [el("p", { class: "marks" }, el("span", {}, "Marks of the source"), ...marks)] : []),
      this.fault,
      el("p", { class: "tools" }, ...tools),
      this.others,
    );
    this.element.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** Say that this is not what the server has. */
  remind({ at, base }) {
    const since = base === this.row.segment.translation ? "" : " The translation was changed since.";
    const restore = button("Start from the saved translation", () => {
      this.field.value = this.row.segment.translation;
      this.keep();
      reminder.remove();
      this.open();
    });
    const reminder = el("p", { class: "draft", role: "status" }, `Your edit of ${clock.format(at)}, not saved.${since}`, restore);
    return reminder;
  }

  /** What is typed outlives the page. */
  keep() {
    keepDraft(this.row.about.id, this.row.segment.n, this.field.value, this.row.segment.translation);
    this.row.onDraft();
  }

  open() {
    this.field.focus();
    this.field.setSelectionRange(this.field.value.length, this.field.value.length);
  }

  pressed(event) {
    if (event.isComposing) return;
    if (event.key === "Escape") this.row.discard();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.save(false);
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  insert(text) {
    this.field.focus();
    this.field.setRangeText(text, this.field.selectionStart, this.field.selectionEnd, "end");
    this.keep();
  }

  async save(allEqual) {
    if (this.field.readOnly) return; // it is being saved
    this.fault.replaceChildren();
    this.field.readOnly = true;
    await this.row.save(this.field.value, allEqual).catch((error) => this.fail(error));
    this.field.readOnly = false;
  }

  /** Ask for other translations; the one that is chosen goes into the box. */
  async offer() {
    this.more.disabled = true;
    this.others.replaceChildren(el("p", { role: "status" }, "Translating again…"));
    try {
      const found = await server.alternatives(this.row.about.id, this.row.segment.n, ALTERNATIVES);
      this.others.replaceChildren(...(found.length ? [this.list(found)] : [el("p", { role: "status" }, "The model has no other translation.")]));
    } catch (error) {
      this.others.replaceChildren();
      this.fail(error);
    } finally {
      this.more.disabled = false;
    }
  }

  list(found) {
    const items = found.map(({ text, confidence, warnings }) => {
      const use = button("", () => this.use(text), { class: "alternative" });
      use.append(...withMarks(text));
      mark(use, this.row.about.target);
      const doubts = [typeof confidence === "number" ? percent(confidence) : "", ...warnings.map(({ message }) => message)];
      return el("li", {}, use, el("span", { class: "figure" }, doubts.filter(Boolean).join(" · ")));
    });
    return el("ul", { "aria-label": "Other translations" }, ...items);
  }

  use(text) {
    this.field.value = text;
    this.keep();
    this.open();
  }

  fail(error) {
    this.fault.replaceChildren(el("p", { class: "fault" }, error.sentence ?? error.message));
    if (!(error instanceof server.ServerError)) throw error;
  }
}

const pencil = () => svg("svg", { viewBox: "0 0 20 20", "aria-hidden": "true" }, svg("path", { d: "M4 16l1-4 8-8 3 3-8 8-4 1zM11 6l3 3" }));
