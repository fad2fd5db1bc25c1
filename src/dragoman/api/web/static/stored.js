/**
 * The server's API of glossaries and translation memories, which are alike: each is named, is the key's own or shared, and has
 * entries by pair of languages. Knows no element of the page.
 *
 * @typedef {"glossaries" | "memories"} Kind
 * @typedef {{id?: string, source: string, target: string, text: string, translation: string, updated_at?: string}} Entry
 */

import { t } from "./i18n.js";
import { JSON_BODY, json, request } from "./server.js";

const PER_PAGE = 100; // entries of a page
const TABLES = { csv: "text/csv", tsv: "text/tab-separated-values", tab: "text/tab-separated-values", txt: "text/tab-separated-values" };

/** Extensions of the files that each kind takes. */
export const FILES = { glossaries: Object.keys(TABLES).map((one) => `.${one}`), memories: [".tmx"] };

const pathOf = (kind, id, rest = "") => `v1/${kind}/${encodeURIComponent(id)}${rest}`;
const direction = ({ source, target }) => `?${new URLSearchParams({ source, target })}`;
const send = (method, path, fields) => json(path, { method, body: JSON.stringify(fields), headers: JSON_BODY, wanted: true });

/** What the reader's key sees, its own and shared ones, by name. @param {Kind} kind */
export const list = async (kind, signal) => (await json(`v1/${kind}`, { signal }))[kind];

export const get = (kind, id, signal) => json(pathOf(kind, id), { signal });

export const make = (kind, name) => send("POST", `v1/${kind}`, { name });

/** Rename it, or share it: `{name, shared}`. */
export const change = (kind, id, fields) => send("PATCH", pathOf(kind, id), fields);

export const remove = (kind, id) => request(pathOf(kind, id), { method: "DELETE", wanted: true });

/** Whose it is, in words, where that is not clear: a server without keys has one owner of all. */
export function ownerOf({ shared, changeable, shareable }) {
  if (!shared || (changeable && !shareable)) return "";
  return t(changeable ? "collections.shared" : "collections.shared_fixed");
}

/** Pairs of languages that it has entries for: `[{source, target, entry_count}]`. */
export const pairsOf = (one) => one.dictionaries ?? one.pairs;

/** How many entries it has. */
export const countOf = (one) => pairsOf(one).reduce((sum, { entry_count: count }) => sum + count, 0);

/**
 * Pages of the entries that have something in text or translation; `pair`: of these languages, or null for all of a memory's.
 * @returns {AsyncGenerator<Entry[]>}
 */
export async function* entries(kind, id, pair, find, signal) {
  if (kind === "glossaries") return yield* terms(id, pair, find, signal);
  for (let cursor = ""; cursor !== null; ) {
    const query = new URLSearchParams({ limit: PER_PAGE, find, ...pair, ...(cursor && { cursor }) });
    const page = await json(pathOf(kind, id, `/entries?${query}`), { signal });
    cursor = page.cursor;
    if (page.entries.length || cursor === null) yield page.entries;
  }
}

/** A glossary's entries of a pair come all at once. */
async function* terms(id, pair, find, signal) {
  const all = pair ? (await json(pathOf("glossaries", id, `/entries${direction(pair)}`), { signal })).entries : {};
  const wanted = find.toLocaleLowerCase();
  const found = Object.entries(all).filter((entry) => entry.some((text) => text.toLocaleLowerCase().includes(wanted)));
  const rows = found.map(([text, translation]) => ({ ...pair, text, translation }));
  for (let at = 0; at === 0 || at < rows.length; at += PER_PAGE) yield rows.slice(at, at + PER_PAGE);
}

/** Add an entry, or give its text another translation; returns the collection. @param {Entry} entry */
export function setEntry(kind, id, { source, target, text, translation }) {
  if (kind === "memories") return send("POST", pathOf(kind, id, "/entries"), { source, target, entries: [{ text, translation }] });
  return send("PATCH", pathOf(kind, id, `/entries${direction({ source, target })}`), { entries: { [text]: translation } });
}

/** @param {Entry} entry */
export function removeEntry(kind, id, entry) {
  if (kind === "glossaries") return setEntry(kind, id, { ...entry, translation: null });
  return request(pathOf(kind, id, `/entries/${encodeURIComponent(entry.id)}`), { method: "DELETE", wanted: true });
}

/** Add the entries of a file, a glossary's of a pair of languages; returns how many a memory did not take. */
export async function addFile(kind, id, file, pair) {
  if (kind === "glossaries") {
    const type = TABLES[file.name.split(".").at(-1).toLowerCase()] ?? TABLES.tsv;
    await json(pathOf(kind, id, `/entries${direction(pair)}`), { method: "PATCH", body: file, headers: { "Content-Type": type }, wanted: true });
    return 0;
  }
  const query = new URLSearchParams({ name: id });
  const { skipped } = await json(`v1/memories/import?${query}`, { method: "POST", body: file, headers: { "Content-Type": "application/x-tmx+xml" }, wanted: true });
  return Object.values(skipped).reduce((sum, count) => sum + count, 0);
}

/** Its entries as a file: a glossary's of a pair as CSV, a memory's as TMX: `{blob, name}`. */
export async function exported(kind, { id, name }, pair) {
  const isGlossary = kind === "glossaries";
  const path = isGlossary ? `/entries${direction(pair)}` : "/export";
  const response = await request(pathOf(kind, id, path), { headers: isGlossary ? { Accept: TABLES.csv } : {}, wanted: true });
  return { blob: await response.blob(), name: isGlossary ? `${name}.${pair.source}-${pair.target}.csv` : `${name}.tmx` };
}
