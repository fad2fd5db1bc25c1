/** What became of an XLIFF file that a translator's tool has changed: what could not be taken, and what was changed in both places. */

import { byId, el, say } from "./dom.js";
import { button } from "./editor.js";
import { difference } from "./examples.js";
import { showFault } from "./faults.js";
import { count } from "./format.js";
import { has, t } from "./i18n.js";
import { mark } from "./languages.js";
import { rendered } from "./marks.js";
import * as server from "./server.js";

export class Imported {
  /** @param {(segments: object[]) => void} onChanged told of segments that have the file's translation now, or again their own */
  constructor(onChanged) {
    this.onChanged = onChanged;
    this.box = byId("review-imported");
    this.summary = byId("imported-summary");
    this.list = byId("imported-list");
    this.all = byId("imported-all");
    this.all.addEventListener("click", () => this.takeAll());
    byId("imported-close").addEventListener("click", () => {
      this.clear();
      byId("review-title").focus();
    });
  }

  clear() {
    this.box.hidden = true;
    this.list.replaceChildren();
    say(this.summary, "");
    CSS.highlights?.delete("difference");
  }

  /** @param {string} name of the file @param {object} taken what the server says of it @param {{id: string, target: string}} about the document */
  show(name, taken, about) {
    const { changed_count: changed, reviewed_count: reviewed, refused, refused_count: left, conflicts, conflicts_count: both } = taken;
    const { as_exported: asExported, as_exported_count: others } = taken;
    const counts = [t("review.taken", { count: changed }), reviewed ? t("review.approved", { count: reviewed }) : "", left ? t("review.refused", { count: left }) : ""];
    const differ = [both ? t("imported.both", { count: both }) : "", others ? t("imported.as_exported", { count: others }) : ""];
    this.counted = [`${name}: ${counts.filter(Boolean).join(", ")}.`, ...differ].filter(Boolean).join(" ");
    this.left = both - conflicts.length + others - asExported.length;
    this.box.hidden = false;
    const conflict = (one, isChanged) => new Conflict(one, isChanged, about, this.onChanged, () => this.describe());
    this.conflicts = [...conflicts.map((one) => conflict(one, true)), ...asExported.map((one) => conflict(one, false))];
    const hidden = left - refused.length + this.left;
    const more = hidden ? [el("li", {}, el("span", {}, t("count.more", { count: hidden })))] : [];
    this.list.replaceChildren(...this.conflicts.map(({ element }) => element), ...refused.map((one) => refusal(one, about.id)), ...more);
    this.describe();
    showDifferences(this.conflicts);
  }

  /** Those that the file has changed, and that have not its translation. */
  get open() {
    return this.conflicts.filter(({ isTaken, isChanged }) => isChanged && !isTaken);
  }

  /** Say how many segments have which translation, and offer the file's for all that it has changed. */
  describe() {
    const { length } = this.open;
    const taken = this.conflicts.filter(({ isTaken }) => isTaken).length;
    const kept = this.conflicts.length - taken + this.left;
    const sentences = [this.counted, kept ? t("imported.stay", { count: kept }) : "", taken ? t("imported.have", { count: taken }) : ""];
    say(this.summary, sentences.filter(Boolean).join(" "));
    this.all.hidden = this.conflicts.filter(({ isChanged }) => isChanged).length < 2 || !length;
    say(this.all, t("imported.take_all", { count: length }));
  }

  async takeAll() {
    this.all.disabled = true;
    const { open } = this;
    await changeAll(open, true).catch((error) => open[0].fail(error));
    this.all.disabled = false;
    (this.all.hidden ? open[0].toggle : this.all).focus({ preventScroll: true }); // which it has lost when it was disabled
  }
}

const linkTo = (id, n) => el("a", { class: "figure", href: `#documents/${encodeURIComponent(id)}/${n + 1}` }, count(n + 1));

function refusal({ n, code, message }, id) {
  const reason = has(`imported.${code}`) ? t(`imported.${code}`) : el("span", { lang: "en" }, message);
  return el("li", {}, linkTo(id, n), el("span", {}, reason));
}

/** Give segments the file's translations, or those that they had here, where nobody has changed them since. */
async function changeAll(conflicts, take) {
  const [{ about, onChanged }] = conflicts;
  const { segments, conflicts: others } = await server.editSegments(about.id, conflicts.map((one) => one.edit(take)));
  for (const one of conflicts) one.changed(take, !others.includes(one.n));
  onChanged(segments);
}

/** Mark the words in which both translations of segments differ, where the browser can. @param {Conflict[]} conflicts */
function showDifferences(conflicts) {
  if (!CSS.highlights) return;
  const ranges = conflicts.flatMap(({ texts: [here, inFile] }) => [...differences(here, inFile), ...differences(inFile, here)]);
  CSS.highlights.set("difference", new Highlight(...ranges));
}

/** Ranges of what an element's text has and another's has not. */
function* differences(element, other) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  let node = walker.nextNode();
  let at = 0; // in this node
  for (const { text, common } of difference(element.textContent, other.textContent)) {
    for (let left = text.length; node && left; ) {
      const length = Math.min(left, node.data.length - at);
      if (!common) yield new StaticRange({ startContainer: node, startOffset: at, endContainer: node, endOffset: at + length });
      left -= length;
      at += length;
      if (at === node.data.length) [node, at] = [walker.nextNode(), 0];
    }
  }
}

/** A segment with two translations, one of which it has. */
class Conflict {
  /** @param {boolean} isChanged in the file: else it is there as it was exported */
  constructor({ segment, returned, reviewed }, isChanged, about, onChanged, onTaken) {
    Object.assign(this, { segment, returned, reviewed, isChanged, about, onChanged, onTaken });
    this.isTaken = false;
    this.toggle = button("", () => this.change(), { "aria-describedby": `imported-${segment.n}` });
    this.fault = el("p", { role: "alert" });
    this.texts = [segment.translation, returned].map((text) => el("dd", {}, ...rendered(text, segment.looks)));
    for (const text of this.texts) mark(text, about.target);
    const [here, inFile] = [t("imported.here"), t("imported.in_file")].map((title, at) => el("div", {}, el("dt", {}, title), this.texts[at]));
    this.element = el("li", { class: "conflict" }, linkTo(about.id, segment.n), el("dl", { id: `imported-${segment.n}` }, here, inFile), el("div", {}, this.toggle, this.fault));
    this.describe();
  }

  get n() {
    return this.segment.n;
  }

  describe() {
    say(this.toggle, t(this.isTaken ? "imported.keep" : "imported.take"));
    this.element.toggleAttribute("data-taken", this.isTaken);
  }

  /** The change that gives the segment one of its translations in place of the other. */
  edit(take) {
    const { segment, returned, n } = this;
    const translations = take ? { translation: returned, was: segment.translation } : { translation: segment.translation, was: returned };
    return { n, ...translations, reviewed: take ? this.reviewed : segment.reviewed };
  }

  async change() {
    this.fault.replaceChildren();
    this.toggle.disabled = true;
    await changeAll([this], !this.isTaken).catch((error) => this.fail(error));
    this.toggle.disabled = false;
    this.toggle.focus({ preventScroll: true }); // which it has lost when it was disabled
  }

  /** The server has set it, or has not since it was changed meanwhile. */
  changed(take, isDone) {
    if (isDone) this.isTaken = take;
    else this.say(t("segment.changed_since"));
    this.describe();
    this.onTaken();
  }

  say(words) {
    this.fault.replaceChildren(el("span", { class: "fault" }, words));
  }

  fail(error) {
    const note = el("span", { class: "fault" });
    this.fault.replaceChildren(note);
    showFault(note, error);
  }
}
