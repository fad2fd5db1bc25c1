/** The box in which a segment's translation is edited. */

import { el } from "./dom.js";
import { draftOf, keepDraft } from "./drafts.js";
import { certainty, count } from "./format.js";
import { mark } from "./languages.js";
import { MarkedField, chip, marksOf, nameOf, rendered } from "./marks.js";
import * as server from "./server.js";

const ALTERNATIVES = 3;
const clock = new Intl.DateTimeFormat(undefined, { dateStyle: "medium", timeStyle: "short" });

export function button(title, onClick, attributes = {}) {
  const made = el("button", { type: "button", ...attributes }, title);
  made.addEventListener("click", onClick);
  return made;
}

export class Editor {
  /** @param {import("./segment.js").Segment} row */
  constructor(row) {
    this.row = row;
    const { segment, number, about } = row;
    this.field = new MarkedField(`Translation of segment ${number}`, segment.looks);
    const draft = draftOf(about.id, segment.n);
    this.field.value = draft?.text ?? segment.translation;
    this.field.element.addEventListener("input", () => this.keep());
    mark(this.field.element, about.target);
    this.fault = el("div", { role: "alert" });
    this.others = el("div", { class: "others" });
    const marks = marksOf(segment.source).map((one) => this.inserter(one));
    this.more = button("Alternatives", () => this.offer());
    this.element = el(
      "div",
      { class: "editor" },
      ...(draft ? [this.remind(draft)] : []),
      this.field.element,
      ...(marks.length ? [el("p", { class: "marks" }, el("span", {}, "Marks of the source"), ...marks)] : []),
      this.fault,
      el("p", { class: "tools" }, ...this.tools(segment)),
      this.others,
    );
    this.element.addEventListener("keydown", (event) => this.pressed(event));
  }

  tools({ equal, machine }) {
    const next = button("Save and next", () => this.save({ next: true }), { class: "primary", "aria-keyshortcuts": "Control+Enter" });
    const save = button("Save", () => this.save());
    const all = equal ? [button(`Save in ${count(equal + 1)} equal segments`, () => this.save({ allEqual: true }))] : [];
    const restore = machine === null ? [] : [button("Machine's text", () => this.use(machine))];
    return [next, save, ...all, this.more, ...restore, button("Cancel", () => this.row.discard())];
  }

  inserter(one) {
    const looks = this.row.segment.looks;
    const made = button("", () => this.field.insert(one), { class: "insert", "aria-label": `Insert ${nameOf(one, looks)}` });
    made.append(chip(one, looks));
    made.addEventListener("pointerdown", (event) => event.preventDefault()); // the cursor stays in the text
    return made;
  }

  /** Say that this is not what the server has. */
  remind({ at, base }) {
    const since = base === this.row.segment.translation ? "" : " The translation was changed since.";
    const restore = button("Start from the saved translation", () => {
      this.use(this.row.segment.translation);
      reminder.remove();
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
  }

  pressed(event) {
    if (event.isComposing) return;
    if (event.key === "Escape") this.row.discard();
    else if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) this.save({ next: true });
    else return;
    event.preventDefault();
    event.stopPropagation();
  }

  async save({ allEqual = false, next = false } = {}) {
    if (this.field.readOnly) return; // it is being saved
    this.fault.replaceChildren();
    this.field.readOnly = true;
    await this.row.save(this.field.value, { allEqual, next }).catch((error) => this.fail(error));
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
    const items = found.map((one) => {
      const use = button("", () => this.use(one.text), { class: "alternative" });
      use.append(...rendered(one.text, this.row.segment.looks));
      mark(use, this.row.about.target);
      const doubts = [certainty(one), ...one.warnings.map(({ message }) => message)];
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
