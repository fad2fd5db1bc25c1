/** What the model was shown before a text: how many examples, and the most similar one with the words in which it differs. */

import { el } from "./dom.js";
import { percent, t } from "./i18n.js";
import { mark } from "./languages.js";

const WORD = /[\p{L}\p{M}\p{N}_]+|[^\p{L}\p{M}\p{N}_]/gu;
const MOST_WORDS = 400;

/** The parts of a text in order: `[{text, common}]`; common are those that another text has, too, in the same order. */
export function difference(text, other) {
  const ours = text.match(WORD) ?? [];
  const theirs = other.match(WORD) ?? [];
  if (ours.length > MOST_WORDS || theirs.length > MOST_WORDS) return [{ text, common: true }];
  const lengths = longestCommon(ours, theirs);
  const parts = [];
  for (let at = 0, there = 0; at < ours.length; at += 1) {
    while (there < theirs.length && ours[at] !== theirs[there] && lengths[at][there + 1] === lengths[at][there]) there += 1;
    const common = there < theirs.length && ours[at] === theirs[there];
    if (common) there += 1;
    if (parts.at(-1)?.common === common) parts.at(-1).text += ours[at];
    else parts.push({ text: ours[at], common });
  }
  return parts;
}

/** For each pair of places, how many words the rests of two lists have in common in the same order. */
function longestCommon(ours, theirs) {
  const lengths = Array.from({ length: ours.length + 1 }, () => new Uint16Array(theirs.length + 1));
  for (let at = ours.length - 1; at >= 0; at -= 1) {
    for (let there = theirs.length - 1; there >= 0; there -= 1) {
      const same = ours[at] === theirs[there];
      lengths[at][there] = same ? lengths[at + 1][there + 1] + 1 : Math.max(lengths[at + 1][there], lengths[at][there + 1]);
    }
  }
  return lengths;
}

/**
 * A remark on a translation.
 * @param {{count: number, best_similarity: number | null, best: {source: string, translation: string}}} examples
 * @param {{text: string, source: string, target: string}} request
 */
export function remark({ count, best_similarity: similarity, best }, { text, source, target }) {
  const parts = difference(best.source, text).map((part) => (part.common ? part.text : el("b", {}, part.text)));
  const example = el("q", {}, ...parts);
  const translation = el("q", {}, best.translation);
  mark(example, source);
  mark(translation, target);
  const lead = similarity === null ? t("translate.examples", { count }) : t("translate.similar_examples", { count, share: percent(similarity / 100) });
  return el("span", { class: "example" }, `${lead}: `, example, " – ", translation);
}
