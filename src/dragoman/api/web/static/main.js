/** Puts the page together. */

import { Burst } from "./burst.js";
import { byId } from "./dom.js";
import { Engine } from "./engine.js";
import { Feed } from "./feed.js";
import { LanguagePair, browserStorage } from "./languages.js";
import { TextOptions } from "./options.js";
import * as server from "./server.js";
import { drawSentence } from "./texts.js";
import { Translator } from "./translator.js";

const controls = { source: byId("source-language"), target: byId("target-language"), swap: byId("swap") };
const pair = new LanguagePair(controls, browserStorage());
const options = new TextOptions({ format: byId("format"), glossary: byId("glossary"), terms: byId("terms") });
const translator = new Translator(pair, options);
const engine = new Engine();
let burst = null;

const feed = new Feed(
  (stats) => {
    engine.show(stats);
    burst?.watch(stats);
  },
  (error) => engine.lost(error),
);

/** A sentence in the language chosen, or in any but the target's. */
function offerExamples(topics) {
  byId("example").addEventListener("click", () => {
    const others = [...pair.languages.keys()].filter((tag) => tag !== pair.target);
    const candidates = pair.source ? [pair.source] : ["en", ...others].filter((tag) => others.includes(tag));
    const sentence = candidates.map((tag) => drawSentence(topics, tag)).find(Boolean);
    if (sentence) translator.show(sentence);
  });
}

async function open() {
  const [languages, topics] = await Promise.all([server.languages(), server.sentences()]);
  pair.fill(languages);
  offerExamples(topics);
  burst = new Burst(pair, topics, (busy) => feed.hurry(busy));
  translator.start(); // the browser may have kept a text across a reload
}

open().catch((error) => translator.fail(error));
