/**
 * Edits of segments that are not saved: kept in the browser's store until they are saved, discarded, or their document is gone.
 * Where the store refuses one, it is kept in memory, and the browser asks before the page is left.
 */

import { keyMark } from "./key.js";
import { browserStorage } from "./languages.js";

const PREFIX = "dragoman.draft";
const MOST = 200;
const MOST_CHARACTERS = 1_000_000;
const KEPT_DAYS = 30;

const store = browserStorage();
const unstored = new Map();

const nameOf = (id, n) => `${PREFIX} ${id} ${n}`;

/** The draft of a segment, `{text, base, at}`, or null. `base`: the translation that it changes; `at`: ms since 1970. */
export function draftOf(id, n) {
  const name = nameOf(id, n);
  return unstored.get(name) ?? parsed(stored(name));
}

/** Keep what was typed into a segment whose translation is `base`; what is the same as that is no draft. */
export function keepDraft(id, n, text, base) {
  if (text === base) return dropDraft(id, n);
  const name = nameOf(id, n);
  const draft = { text, base, at: Date.now(), mark: keyMark() };
  if (write(name, JSON.stringify(draft))) unstored.delete(name);
  else unstored.set(name, draft);
}

export function dropDraft(id, n) {
  unstored.delete(nameOf(id, n));
  remove(nameOf(id, n));
}

/** Numbers of the segments of a document that have drafts, in order. */
export function draftedSegments(id) {
  const prefix = nameOf(id, "");
  const found = [...names(), ...unstored.keys()].filter((name) => name.startsWith(prefix));
  return [...new Set(found.map((name) => Number(name.slice(prefix.length))))].sort((a, b) => a - b);
}

/** The reader has deleted the document. */
export function dropDrafts(id) {
  for (const n of draftedSegments(id)) dropDraft(id, n);
}

/** The server has no such document: unless it belongs to another key, its drafts are of no more use. */
export function dropLostDrafts(id) {
  for (const n of draftedSegments(id)) if (draftOf(id, n).mark === keyMark()) dropDraft(id, n);
}

const names = () => (store ? Array.from({ length: store.length }, (_, at) => store.key(at)).filter((name) => name.startsWith(`${PREFIX} `)) : []);

function stored(name) {
  try {
    return store?.getItem(name) ?? null;
  } catch {
    return null;
  }
}

function remove(name) {
  try {
    store?.removeItem(name);
  } catch {
    // what cannot be read cannot be there
  }
}

function parsed(json) {
  try {
    const draft = JSON.parse(json);
    return typeof draft?.text === "string" && typeof draft.base === "string" ? draft : null;
  } catch {
    return null; // not of this page
  }
}

/** Whether the store has taken it. The oldest others make room, for its own bound or for the browser's. */
function write(name, json) {
  if (!store || json.length > MOST_CHARACTERS) return false;
  const others = aged().filter((one) => one.name !== name);
  let characters = others.reduce((sum, one) => sum + one.length, json.length);
  while (others.length >= MOST || (others.length && characters > MOST_CHARACTERS)) {
    const oldest = others.shift();
    characters -= oldest.length;
    remove(oldest.name);
  }
  try {
    store.setItem(name, json);
    return true;
  } catch {
    remove(name); // what it held before is older than what is in memory
    return false;
  }
}

/** `{name, length, at}` of each stored draft, the oldest first. */
function aged() {
  const found = names().map((name) => ({ name, json: stored(name) ?? "" }));
  return found.map(({ name, json }) => ({ name, length: json.length, at: parsed(json)?.at ?? 0 })).sort((a, b) => a.at - b.at);
}

/** Delete those of documents that were forgotten long ago. */
for (const { name, at } of aged()) if (at < Date.now() - KEPT_DAYS * 86_400_000) remove(name);

addEventListener("beforeunload", (event) => unstored.size && event.preventDefault());
