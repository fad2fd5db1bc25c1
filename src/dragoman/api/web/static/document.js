/** What the list of documents and the review of one have in common: progress, download, deletion. */

import { el, say } from "./dom.js";
import { dropDrafts } from "./drafts.js";
import { remaining } from "./format.js";
import { percent, t } from "./i18n.js";
import * as server from "./server.js";

/** The state of a document in words, and a bar while it is translated. */
export class Progress {
  constructor() {
    this.bar = el("progress", { max: "1" });
    this.words = el("span", { class: "figure" });
    this.element = el("span", { class: "progress" }, this.bar, this.words);
  }

  show(one) {
    const share = one.characters ? one.characters_done / one.characters : 0;
    this.bar.hidden = one.state !== "translating";
    this.bar.value = share;
    this.bar.setAttribute("aria-label", t("documents.progress", { name: one.name }));
    this.element.dataset.state = one.state;
    say(this.words, words(one, share));
  }
}

function words(one, share) {
  if (one.state === "queued") return t("documents.waiting");
  if (one.state === "error") return new server.ServerError(one.error?.code ?? "internal_error", one.error?.message).sentence;
  if (one.state === "done") return t("documents.done", { count: one.characters });
  return [percent(Math.floor(100 * share) / 100), remaining(one.seconds_remaining)].filter(Boolean).join(", ");
}

/** Download the translated file, or its segments as `xliff` or `tmx`. A link would not carry the key. */
export const saveResult = async (id, format) => saveBlob(await server.result(id, format));

/** Have the browser save `{blob, name}` as a file. */
export function saveBlob({ blob, name }) {
  const address = URL.createObjectURL(blob);
  el("a", { href: address, download: name }).click();
  setTimeout(() => URL.revokeObjectURL(address), 60_000); // the browser may not have begun to read it
}

/** Delete a document if the reader confirms it; whether it is gone. */
export async function deleted({ id, name }) {
  if (!confirm(t("documents.confirm", { name }))) return false;
  await forget(id);
  return true;
}

/** Delete a document without asking, and what is kept of it here. */
export async function forget(id) {
  await server.deleteDocument(id);
  dropDrafts(id);
}
