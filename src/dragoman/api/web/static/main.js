/** Puts the page together: its views, which the address names after `#`, and what they share. */

import { Collection } from "./collection.js";
import { Collections } from "./collections.js";
import { Connect } from "./connect.js";
import { byId } from "./dom.js";
import { Documents } from "./documents.js";
import { localise } from "./i18n.js";
import { onKey } from "./key.js";
import { LanguagePair, browserStorage } from "./languages.js";
import { TextOptions } from "./options.js";
import { TextHistory } from "./past.js";
import { Picker } from "./picker.js";
import { Review } from "./review.js";
import * as server from "./server.js";
import * as stored from "./stored.js";
import { drawSentence } from "./texts.js";
import { Translator } from "./translator.js";

localise();

const controls = { source: new Picker(byId("source-language")), target: new Picker(byId("target-language")), swap: byId("swap") };
const pair = new LanguagePair(controls, browserStorage());
const options = new TextOptions({
  format: byId("format"),
  dialect: byId("dialect"),
  formality: byId("formality"),
  glossary: byId("glossary"),
  terms: byId("terms"),
  stored: byId("glossary-choice"),
  memory: byId("memory-choice"),
});
const past = new TextHistory({
  onChosen: ({ text, source, target }) => {
    pair.choose(source, target);
    translator.show(text);
    translator.focus();
  },
});
const translator = new Translator(pair, options, { onDone: (one) => past.add(one) });
const documents = new Documents(pair, options, { onUploaded: (id) => (location.hash = `documents/${id}`) });
const connect = new Connect();
const collections = new Collections({ onMade: (kind, id) => (location.hash = `${kind}/${id}`) });
const collection = new Collection({ onDeleted: (kind) => (location.hash = kind) });
const review = new Review({ onDeleted: () => (location.hash = "documents") });

/** The views by the address's first word: of all, and of one. */
const VIEWS = { text: ["text", "text"], documents: ["documents", "review"], glossaries: ["collections", "entries"], memories: ["collections", "entries"] };

/** The parts of an address behind `#`; none of one that is not well encoded. */
function partsOf(hash) {
  try {
    return hash.slice(1).split("/").map((part) => decodeURIComponent(part));
  } catch {
    return [""];
  }
}

/** Show what the address names: `#documents`, `#documents/ID`, `#documents/ID/SEGMENT`, `#glossaries`, `#memories/ID`, else texts. */
function route() {
  const [word, id, number] = partsOf(location.hash);
  const name = Object.hasOwn(VIEWS, word) ? word : "text";
  const view = VIEWS[name][id ? 1 : 0];
  for (const element of document.querySelectorAll("[data-views]")) {
    element.hidden = !element.dataset.views.split(" ").includes(view);
  }
  for (const link of document.querySelectorAll(".views a")) {
    if (link.hash === `#${name}`) link.setAttribute("aria-current", "page");
    else link.removeAttribute("aria-current");
  }
  document.title = "dragoman";
  documents.toggle(view === "documents");
  review.toggle(view === "review" ? id : null, pair.languages, number > 0 ? Number(number) - 1 : null);
  collections.toggle(view === "collections" ? name : null, pair);
  collection.toggle(name, view === "entries" ? id : null, pair);
  if (view === "text" || view === "documents") offerStored();
}

/** Files may be dropped anywhere; an XLIFF file on a document comes back into it. */
function takeFiles() {
  const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
  addEventListener("dragover", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    document.body.dataset.dragging = "";
  });
  addEventListener("dragleave", (event) => event.relatedTarget ?? delete document.body.dataset.dragging);
  addEventListener("drop", (event) => {
    if (!hasFiles(event)) return;
    event.preventDefault();
    delete document.body.dataset.dragging;
    const files = [...event.dataTransfer.files];
    if (review.takesBack(files)) return review.takeBack(files[0]);
    location.hash = "documents";
    documents.upload(files);
  });
}

/** What is pasted outside of a field, while texts are shown, is a text to translate. */
function takePastes() {
  addEventListener("paste", (event) => {
    const text = event.clipboardData?.getData("text/plain");
    const source = byId("source");
    if (!text || !source.checkVisibility() || event.target.closest?.("input, textarea, select, dialog")) return;
    event.preventDefault();
    translator.show(text);
    source.focus();
  });
}

/** A sentence in the language chosen, or in any but the target's. */
function offerExamples(topics) {
  byId("example").addEventListener("click", () => {
    const others = [...pair.languages.keys()].filter((tag) => tag !== pair.target);
    const candidates = pair.source ? [pair.source] : ["en", ...others].filter((tag) => others.includes(tag));
    const sentence = candidates.map((tag) => drawSentence(topics, tag)).find(Boolean);
    if (sentence) translator.show(sentence);
  });
}

/** Statistics are for operators: whoever may not read them is not told. */
async function explainModel() {
  const stats = await server.stats().catch(() => null);
  byId("packaged-model").hidden = stats?.profile !== "phrasebook";
}

/** Offer a form of address where the model has one. */
async function offerFormality() {
  byId("formality-choice").hidden = !(await server.takesFormality().catch(() => false));
}

/** Offer the glossaries and memories that there are, while the options are open; while they cannot be read, those offered before. */
async function offerStored() {
  if (!document.querySelector(".options").open) return;
  const found = await Promise.all([stored.list("glossaries"), stored.list("memories")]).catch(() => null);
  if (found) options.offer(...found, pair);
}

let isOpen = false;

async function open() {
  const [languages, topics] = await Promise.all([server.languages(), server.sentences()]);
  isOpen = true;
  pair.fill(languages);
  offerExamples(topics);
  takeFiles();
  takePastes();
  addEventListener("hashchange", route);
  document.querySelector(".options").addEventListener("toggle", offerStored);
  pair.addEventListener("change", offerStored);
  route();
  translator.start(); // the browser may have kept a text across a reload
  await Promise.all([explainModel(), offerFormality(), documents.describeFormats(), connect.describeKey()]);
}

/** There is a key now: try again what failed without. */
function retry() {
  if (!isOpen) return open();
  documents.retry();
  collections.retry();
  collection.retry();
  review.retry();
  translator.start();
}

const attempt = (action) => Promise.resolve().then(action).catch((error) => translator.fail(error));

onKey(() => attempt(retry));
attempt(open);
