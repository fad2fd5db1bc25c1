/** The server's HTTP API, as far as the page needs it. Knows no element of the page. */

import { has, speaksAsServer, t } from "./i18n.js";
import { askForKey, keyHeaders } from "./key.js";
import { Languages } from "./languages.js";
import { eventData } from "./sse.js";

const UNAVAILABLE = new Set(["starting", "draining", "engine_dead", "unavailable", "no_connection", "broken_off"]);
const HIGHEST_DELAY_S = 60;
const PLAIN = new Set(["starting", "draining", "unauthenticated", "invalid_key", "equal_languages", "undetected_language"]); // the page says them better than the server

/** What the server said was wrong, or that it said nothing at all (`no_connection`), or not all (`broken_off`). */
export class ServerError extends Error {
  /** @param {string} code @param {string} [message] the server's words */
  constructor(code, message = "", retryAfterS = null) {
    super(message || code);
    this.said = PLAIN.has(code) ? "" : message.charAt(0).toUpperCase() + message.slice(1) + (!message || /[.!?]$/.test(message) ? "" : ".");
    this.code = code;
    this.retryAfterS = retryAfterS;
  }

  /** It may answer later: `/readyz` reports when. */
  get unavailable() {
    return UNAVAILABLE.has(this.code);
  }

  /** The reader's key, or the lack of one, does not allow it. */
  get forbidden() {
    return this.code === "forbidden" || this.code === "unauthenticated" || this.code === "invalid_key";
  }

  get queueFull() {
    return this.code === "queue_full";
  }

  /** What it means for a reader: the server's words, or in another language the page's for its code. */
  get sentence() {
    const { code, said } = this;
    if (said && speaksAsServer) return said;
    if (code.startsWith("http_")) return t("error.http", { status: code.slice(5) });
    return t(has(`error.${code}`) ? `error.${code}` : "error.internal_error");
  }

  /** The server's words, where the sentence is not theirs; or "". */
  get detail() {
    return speaksAsServer ? "" : this.said;
  }
}

/** Addresses are relative to the page, so that it also works behind a proxy that serves it under a path. */
const address = (path) => new URL(path, document.baseURI);

/**
 * The answer; where the server needs a key, with the one that the reader is asked for: again and again for what they have just
 * wanted (`wanted`), else once.
 */
export async function request(path, { wanted = false, ...options } = {}) {
  for (;;) {
    const key = keyHeaders();
    let response;
    try {
      response = await fetch(address(path), { ...options, headers: { ...options.headers, ...key } });
    } catch (error) {
      throw asServerError(error);
    }
    if (response.ok) return response;
    if (response.status !== 401 || !(await askForKey(key.Authorization, wanted))) throw await refusal(response);
    options.signal?.throwIfAborted();
  }
}

function asServerError(error) {
  if (error instanceof ServerError || error.name === "AbortError") return error;
  return new ServerError("no_connection");
}

async function refusal(response) {
  const said = await response.json().catch(() => null);
  const code = said?.error?.code ?? (response.status === 503 ? "unavailable" : `http_${response.status}`);
  const retryAfterS = Number.parseInt(response.headers.get("Retry-After") ?? "", 10);
  return new ServerError(code, said?.error?.message, Number.isNaN(retryAfterS) ? null : Math.min(retryAfterS, HIGHEST_DELAY_S));
}

export const JSON_BODY = { "Content-Type": "application/json" };

export async function json(path, options) {
  const response = await request(path, options);
  try {
    return await response.json();
  } catch (error) {
    throw asServerError(error);
  }
}

export const languages = async () => new Languages((await json("v1/languages")).languages);

export const stats = (signal) => json("v1/stats", { signal });

/** The sentences that come with the page: `{topic: [{language: sentence}]}`. */
export const sentences = () => json("web/sentences.json");

/** Return once the server would serve a request; asks every `everyS` seconds and calls `onAnswer` with the error each time. */
export async function untilReady(signal, onAnswer, everyS = 1) {
  for (;;) {
    try {
      await request("readyz", { signal });
      return;
    } catch (error) {
      if (!error.unavailable) throw error;
      onAnswer(error);
    }
    await pause(everyS, signal);
  }
}

/** Resolve after `seconds`; reject with the signal's reason when it is aborted before. */
export function pause(seconds, signal) {
  return new Promise((resolve, reject) => {
    const stop = () => {
      clearTimeout(timer);
      reject(signal.reason);
    };
    const timer = setTimeout(() => {
      signal.removeEventListener("abort", stop);
      resolve();
    }, seconds * 1000);
    if (signal.aborted) stop();
    else signal.addEventListener("abort", stop, { once: true });
  });
}

/**
 * Events of a streamed translation, `{index, delta}` and `{index, translation}`, until all texts are done.
 * Throws `ServerError`, also for one that comes in the stream or a stream that breaks off.
 */
export async function* translate({ source, ...fields }, signal) {
  const body = JSON.stringify({ ...fields, stream: true, ...(source && { source }) });
  const response = await request("v1/translate", { method: "POST", body, headers: JSON_BODY, signal });
  try {
    for await (const data of eventData(response.body)) {
      signal.throwIfAborted(); // what was read already is no longer wanted either
      if (data === "[DONE]") return;
      const event = JSON.parse(data);
      if (event.error) throw new ServerError(event.error.code, event.error.message);
      yield event;
    }
  } catch (error) {
    throw asServerError(error);
  }
  throw new ServerError("broken_off");
}

/** Up to so many other translations of the text of a request: `[{text, confidence, warnings}]`. */
export async function otherTranslations({ source, ...fields }, count, signal) {
  const body = JSON.stringify({ ...fields, alternatives: count, ...(source && { source }) });
  const { translations } = await json("v1/translate", { method: "POST", body, headers: JSON_BODY, signal });
  return translations[0].alternatives;
}

/** The language of a text, as far as it is known, or "". */
export async function detect(text, signal) {
  const [found] = await json("detect", { method: "POST", body: JSON.stringify({ q: text }), headers: JSON_BODY, signal });
  return found && found.language !== "und" ? found.language : "";
}

/** Extensions of the files that can be translated, with their dot. */
export const fileFormats = async () => (await settings()).supportedFilesFormat;

/** Whether the server refuses calls without a key. */
export const needsKey = async () => (await settings()).keyRequired;

let asked = null;

/** The server's settings, asked for once. */
const settings = () => (asked ??= json("frontend/settings"));

let model = null;

/** What the server says of its model; asked for once. */
const ofModel = async () => (await (model ??= json("v1/models"))).data[0];

/** Whether the model can be shown texts with their translations. */
export const takesExamples = async () => (await ofModel()).takes_examples;

/** Whether the model can be told how people are addressed. */
export const takesFormality = async () => (await ofModel()).takes_formality;

const documentPath = (id, rest = "") => `v1/documents/${encodeURIComponent(id)}${rest}`;

/** The most documents of one answer. */
export const DOCUMENTS_PER_PAGE = 100;

/** Some of the key's documents, the newest first, and whether there are more: `{documents, more}`. */
export async function documents(count, signal) {
  const found = new Map(); // one may come twice, when another was added meanwhile
  for (let offset = 0; ; offset += DOCUMENTS_PER_PAGE) {
    const limit = offset < count ? DOCUMENTS_PER_PAGE : 1;
    const { documents } = await json(`v1/documents?${new URLSearchParams({ offset, limit })}`, { signal });
    if (offset >= count) return { documents: [...found.values()], more: documents.length > 0 };
    for (const one of documents) found.set(one.id, one);
    if (documents.length < limit) return { documents: [...found.values()], more: false };
  }
}

/** One of them. */
export const documentOf = (id, signal) => json(documentPath(id), { signal });

/** Upload a file to be translated. `fields` are strings; the answer is the document. */
export function createDocument(file, fields) {
  const body = new FormData();
  for (const [name, value] of Object.entries(fields)) if (value) body.append(name, value);
  body.append("file", file);
  return json("v1/documents", { method: "POST", body, wanted: true });
}

export const deleteDocument = (id) => request(documentPath(id), { method: "DELETE", wanted: true });

/** The translated file, or its segments as `xliff` or `tmx`: `{blob, name}`. */
export async function result(id, format = "") {
  const response = await request(documentPath(id, format ? `/result?format=${format}` : "/result"), { wanted: true });
  const disposition = response.headers.get("Content-Disposition") ?? "";
  const [, encoded] = /filename\*=UTF-8''([^;]+)/i.exec(disposition) ?? [];
  const [, plain] = /filename="([^"]*)"/i.exec(disposition) ?? [];
  return { blob: await response.blob(), name: encoded ? decodeURIComponent(encoded) : (plain ?? "translation") };
}

/** `{segments, total, doubtful_total}` */
export const segments = (id, query, signal) => json(documentPath(id, `/segments?${new URLSearchParams(query)}`), { signal });

/** The numbers of all segments that are wanted: `{find, where, match_case, kind}`. */
export async function findSegments(id, query, signal) {
  const found = [];
  for (let first = 0; first !== null; ) {
    const { numbers, next } = await json(documentPath(id, `/segments/numbers?${new URLSearchParams({ ...query, first })}`), { signal });
    found.push(...numbers);
    first = next;
  }
  return found;
}

/** What replacing would change, up to so many: `[{segment, replaced}]`. */
export async function replacements(id, query, most, signal) {
  const found = [];
  for (let first = 0; first !== null && found.length < most; ) {
    const body = JSON.stringify({ ...query, first, limit: 200 });
    const { changes, next } = await json(documentPath(id, "/segments/replacements"), { method: "POST", body, headers: JSON_BODY, wanted: true, signal });
    found.push(...changes);
    first = next;
  }
  return found.slice(0, most);
}

/** Change several segments, `[{n, translation, was, reviewed}]`: `{segments, conflicts}`. */
export function editSegments(id, edits) {
  return json(documentPath(id, "/segments"), { method: "PATCH", body: JSON.stringify({ edits }), headers: JSON_BODY, wanted: true });
}

/**
 * Set the translations of an exported XLIFF file that comes back: `{segments, changed_count, reviewed_count, refused, refused_count,
 * conflicts, conflicts_count, as_exported, as_exported_count}`. Of both lists, `[{segment, returned, reviewed}]`, the segments are as
 * they were.
 */
export function takeBack(id, file) {
  return json(documentPath(id, "/xliff"), { method: "POST", body: file, headers: { "Content-Type": "application/xliff+xml" }, wanted: true });
}

/** Change a segment, `{translation, reviewed, all_equal}`; the changed segments. */
export async function editSegment(id, n, change) {
  const body = JSON.stringify(change);
  return (await json(documentPath(id, `/segments/${n}`), { method: "PATCH", body, headers: JSON_BODY, wanted: true })).segments;
}

/** Translate the segments again that are similar to an edited one; returns those that changed. */
export async function translateSimilar(id, n) {
  return (await json(documentPath(id, `/segments/${n}/similar`), { method: "POST", wanted: true })).segments;
}

/** Other translations of a segment: `[{text, confidence, warnings}]`. */
export async function alternatives(id, n, count) {
  const body = JSON.stringify({ n: count });
  const options = { method: "POST", body, headers: JSON_BODY, wanted: true };
  return (await json(documentPath(id, `/segments/${n}/alternatives`), options)).alternatives;
}
