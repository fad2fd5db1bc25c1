/** The box in which a segment's translation is edited. */

import { el } from "./dom.js";
import { draftOf, keepDraft } from "./drafts.js";
import { showFault, warningOf } from "./faults.js";
import { certainty } from "./format.js";
import { dayAndTime, t } from "./i18n.js";
import { mark } from "./languages.js";
import { MarkedField, chip, marksOf, nameOf, rendered } from "./marks.js";
import * as server from "./server.js";

const ALTERNATIVES = 3;

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
    this.field = new MarkedField(t("segment.translation", { n: number }), segment.looks);
    const draft = draftOf(about.id, segment.n);
    this.field.value = draft?.text ?? segment.translation;
    this.field.element.addEventListener("input", () => this.keep());
    mark(this.field.element, about.target);
    this.fault = el("div", { role: "alert" });
    this.others = el("div", { class: "others" });
    const marks = marksOf(segment.source).map((one) => this.inserter(one));
    this.more = button(t("segment.alternatives"), () => this.offer());
    this.element = el(
      "div",
      { class: "editor" },
      this.field.element,
      ...(marks.length ? [el("p", { class: "marks" }, el("span", {}, t("segment.marks")), ...marks)] : []),
      this.fault,
      el("p", { class: "tools" }, ...this.tools(segment)),
      this.others,
    );
    if (draft) this.remind(draft);
    this.element.addEventListener("keydown", (event) => this.pressed(event));
  }

  tools({ equal, machine }) {
    const next = button(t("segment.save_next"), () => this.save({ next: true }), { class: "primary", "aria-keyshortcuts": "Control+Enter" });
    const save = button(t("segment.save"), () => this.save());
    const all = equal ? [button(t("segment.save_equal", { count: equal + 1 }), () => this.save({ allEqual: true }))] : [];
    const restore = machine === null ? [] : [button(t("segment.machine"), () => this.use(machine))];
    return [next, save, ...all, this.more, ...restore, button(t("segment.cancel"), () => this.row.discard())];
  }

  inserter(one) {
    const looks = this.row.segment.looks;
    const made = button("", () => this.field.insert(one), { class: "insert", "aria-label": t("segment.insert", { mark: nameOf(one, looks) }) });
    made.append(chip(one, looks));
    made.addEventListener("pointerdown", (event) => event.preventDefault()); // the cursor stays in the text
    return made;
  }

  /** Say that this is not what the server has. */
  remind({ at, base }) {
    const since = base === this.row.segment.translation ? "" : ` ${t("segment.changed_since")}`;
    const restore = button(t("segment.from_saved"), () => {
      this.use(this.row.segment.translation);
      reminder.remove();
    });
    const reminder = el("p", { class: "draft", role: "status" }, `${t("segment.draft_of", { time: dayAndTime(at) })}${since}`, restore);
    this.element.querySelector(".draft")?.remove();
    this.element.prepend(reminder);
  }

  /** What is typed outlives the page. */
  keep(base = this.row.segment.translation) {
    keepDraft(this.row.about.id, this.row.segment.n, this.field.value, base);
    this.row.onDraft();
  }

  /** The translation became another one than `base` while the box was open: what was typed stays, and the reader is told. */
  rebase(base) {
    if (this.field.value !== base) {
      this.keep(base);
      return this.remind({ at: Date.now(), base });
    }
    this.field.value = this.row.segment.translation;
    this.fault.replaceChildren(el("p", { class: "fault" }, t("segment.changed_since")));
  }

  /** Another tab has saved or discarded its own draft of the segment: this one is kept in its place. */
  keepUnlessKept() {
    if (!draftOf(this.row.about.id, this.row.segment.n)) this.keep();
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
    const { element } = this.field;
    const hadFocus = document.activeElement === element;
    this.field.readOnly = true; // which takes the focus away
    await this.row.save(this.field.value, { allEqual, next }).catch((error) => this.fail(error));
    this.field.readOnly = false;
    const isLost = document.activeElement.matches("body, dialog:not([open]) *");
    if (hadFocus && isLost && element.isConnected) element.focus({ preventScroll: true });
  }

  /** Ask for other translations; the one that is chosen goes into the box. */
  async offer() {
    this.more.disabled = true;
    this.others.replaceChildren(el("p", { role: "status" }, t("translate.again")));
    try {
      const found = await server.alternatives(this.row.about.id, this.row.segment.n, ALTERNATIVES);
      this.others.replaceChildren(...(found.length ? [this.list(found)] : [el("p", { role: "status" }, t("translate.no_others"))]));
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
      const doubts = [certainty(one), ...one.warnings.map((warning) => warningOf(warning))];
      return el("li", {}, use, el("span", { class: "figure" }, doubts.filter(Boolean).join(" · ")));
    });
    return el("ul", { "aria-label": t("translate.others") }, ...items);
  }

  use(text) {
    this.field.replace(text);
  }

  fail(error) {
    const note = el("p", { class: "fault" });
    this.fault.replaceChildren(note);
    showFault(note, error);
  }
}
