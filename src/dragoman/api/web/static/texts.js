/** What a burst sends: short and long texts, mixed, in the languages that the model serves. Knows no server. */

export const TEXTS = 25;
const LONG_AT = new Set([0, 3, 7, 10, 14, 18, 22]); // the first of all is long: what follows could be held up by it
const LONG_SENTENCES = 7;
const UNSPACED = new Set(["ja", "zh"]);

/** @typedef {{text: string, language: string, long: boolean}} BurstText */

/**
 * 25 texts to be translated into one target; none where no language of the sentences can be.
 * @param {Record<string, Record<string, string>[]>} topics aligned sentences
 * @param {import("./languages.js").Languages} languages
 * @returns {BurstText[]}
 */
export function drawTexts(topics, languages, target, random = Math.random) {
  const stock = Object.values(topics);
  const sources = Object.keys(stock[0][0]).filter((tag) => tag !== target && languages.has(tag));
  const usable = sources.filter((tag) => languages.serves(tag, target));
  if (!usable.length) return [];
  const bags = stock.map((sentences) => new Bag(sentences, random));
  const short = new Bag(stock.flat(), random); // no short text is there twice: the engine would generate it once
  return Array.from({ length: TEXTS }, (_, at) => {
    const language = usable[at % usable.length];
    const long = LONG_AT.has(at);
    const bag = long ? bags[Math.floor(random() * bags.length)] : short;
    const drawn = Array.from({ length: long ? LONG_SENTENCES : 1 }, () => bag.draw()[language]);
    return { text: drawn.join(UNSPACED.has(language) ? "" : " "), language, long };
  });
}

/** One sentence in a language, or null. */
export function drawSentence(topics, language, random = Math.random) {
  const known = Object.values(topics).flat().filter((sentence) => language in sentence);
  return known.length ? known[Math.floor(random() * known.length)][language] : null;
}

/** Draws each once before any again. */
class Bag {
  constructor(things, random) {
    this.things = things;
    this.random = random;
    this.left = [];
  }

  draw() {
    if (!this.left.length) this.left = [...this.things];
    return this.left.splice(Math.floor(this.random() * this.left.length), 1)[0];
  }
}
