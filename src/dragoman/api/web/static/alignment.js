/**
 * Which sentence of a translation is that of which sentence of the source: both are highlighted while the reader points at one of
 * them, has the cursor in the source, or goes through the translation with ← and →.
 *
 * A line of the source is the same line of the translation; in it, sentences are paired where both have as many, as the server
 * does where a warning names a sentence. Else the line is one pair. Where the lines are not as many, the sentences of all have to be.
 */

import { el } from "./dom.js";

const HIGHLIGHT = "sentence";

/** The sentences of a line as `[start, end]`, without the spaces around them. */
function sentencesOf(line, language) {
  if (!("Segmenter" in Intl)) return [[0, line.length]];
  let segmenter;
  try {
    segmenter = new Intl.Segmenter(language || undefined, { granularity: "sentence" });
  } catch {
    segmenter = new Intl.Segmenter(undefined, { granularity: "sentence" }); // the tag is the server's
  }
  return [...segmenter.segment(line)].map(({ index, segment }) => [index, index + segment.trimEnd().length]).filter(([start, end]) => end > start);
}

function* linesOf(text) {
  let start = 0;
  for (const line of text.split("\n")) {
    if (line.trim()) yield { start, line };
    start += line.length + 1;
  }
}

/** The sentences of both in pairs; null where they are not as many. */
const paired = (sources, targets) => (sources.length === targets.length ? sources.map((source, n) => ({ source, target: targets[n] })) : null);

/**
 * Pairs of a text and its translation, in order; none where they have neither as many lines nor as many sentences.
 * @returns {{source: [number, number], target: [number, number]}[]} places in UTF-16 code units
 */
export function pairsOf(text, translation, sourceLanguage, targetLanguage) {
  const [ours, theirs] = [[...linesOf(text)], [...linesOf(translation)]];
  if (ours.length !== theirs.length) {
    return paired(sentencesOf(text, sourceLanguage), sentencesOf(translation, targetLanguage)) ?? [];
  }
  return ours.flatMap((one, at) => {
    const whole = [{ source: [0, one.line.length], target: [0, theirs[at].line.length] }];
    const pairs = paired(sentencesOf(one.line, sourceLanguage), sentencesOf(theirs[at].line, targetLanguage)) ?? whole;
    const moved = ([start, end], by) => [start + by, end + by];
    return pairs.map(({ source, target }) => ({ source: moved(source, one.start), target: moved(target, theirs[at].start) }));
  });
}

/** A part of an element's text as a range. */
function rangeOf(element, [start, end]) {
  const walker = document.createTreeWalker(element, NodeFilter.SHOW_TEXT);
  const range = document.createRange();
  let at = 0;
  while (walker.nextNode()) {
    const { length } = walker.currentNode;
    if (start >= at && start <= at + length) range.setStart(walker.currentNode, start - at);
    if (end <= at + length) {
      range.setEnd(walker.currentNode, end - at);
      return range;
    }
    at += length;
  }
  return null;
}

export class Alignment {
  /** @param {HTMLTextAreaElement} source @param {HTMLElement} output */
  constructor(source, output) {
    this.source = source;
    this.output = output;
    this.mirror = el("div", { class: "mirror", "aria-hidden": "true" }); // a text box has no ranges: its text lies behind it once more
    source.before(this.mirror);
    this.pairs = [];
    this.pointed = -1; // what the pointer is at
    this.focused = -1; // where the cursor is
    source.addEventListener("scroll", () => this.follow());
    for (const side of [source, output]) {
      side.addEventListener("pointermove", (event) => this.point(event, side));
      side.addEventListener("pointerleave", () => this.mark({ pointed: -1 }));
      side.addEventListener("blur", () => this.mark({ focused: -1 }));
    }
    document.addEventListener("selectionchange", () => document.activeElement === source && this.mark({ focused: this.atCursor() }));
    output.addEventListener("focus", () => output.matches(":focus-visible") && this.mark({ focused: 0 }));
    output.addEventListener("keydown", (event) => this.pressed(event));
  }

  /** There is a translation of what is in the box. */
  show(sourceLanguage, targetLanguage) {
    const pairs = "highlights" in CSS ? pairsOf(this.source.value, this.output.textContent, sourceLanguage, targetLanguage) : [];
    this.clear();
    if (pairs.length < 2) return; // there is nothing to tell apart
    this.mirror.textContent = this.source.value;
    this.mirror.dir = this.source.dir;
    this.mirror.lang = this.source.lang;
    this.pairs = pairs.map(({ source, target }) => ({ at: source, ranges: [rangeOf(this.mirror, source), rangeOf(this.output, target)] }));
    if (document.activeElement === this.source) this.mark({ focused: this.atCursor() });
  }

  clear() {
    this.pairs = [];
    this.mirror.replaceChildren();
    this.mark({ pointed: -1, focused: -1 });
  }

  follow() {
    this.mirror.style.width = `${this.source.clientWidth}px`;
    this.mirror.style.height = `${this.source.clientHeight}px`;
    this.mirror.scrollTop = this.source.scrollTop;
  }

  point({ clientX, clientY }, side) {
    if (!this.pairs.length) return;
    this.follow();
    const isAt = ({ left, right, top, bottom }) => clientX >= left && clientX <= right && clientY >= top && clientY <= bottom;
    const which = side === this.source ? 0 : 1;
    this.mark({ pointed: this.pairs.findIndex(({ ranges }) => [...ranges[which].getClientRects()].some(isAt)) });
  }

  atCursor() {
    const { selectionStart: cursor } = this.source;
    return this.pairs.findLastIndex(({ at: [start] }) => start <= cursor);
  }

  pressed(event) {
    const step = { ArrowRight: 1, ArrowLeft: -1 }[event.key];
    if (!step || !this.pairs.length || event.altKey || event.ctrlKey || event.metaKey || event.shiftKey) return;
    event.preventDefault();
    this.mark({ focused: Math.min(Math.max(this.focused + step, 0), this.pairs.length - 1) });
    this.pairs[this.focused].ranges[1].startContainer.parentElement.scrollIntoView({ block: "nearest" });
  }

  /** Highlight the pair that the reader points at, or else the one with the cursor. */
  mark({ pointed = this.pointed, focused = this.focused }) {
    this.pointed = pointed;
    this.focused = focused;
    if (!("highlights" in CSS)) return;
    const pair = this.pairs[pointed] ?? this.pairs[focused];
    if (!pair) return CSS.highlights.delete(HIGHLIGHT);
    this.follow();
    CSS.highlights.set(HIGHLIGHT, new Highlight(...pair.ranges));
  }
}
