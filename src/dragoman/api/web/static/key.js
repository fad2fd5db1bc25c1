/**
 * The reader's key, for a server that needs one: asked for when it is needed.
 *
 * It is kept in the memory and the session store of each open tab, which give it to new ones, and is gone with the last of
 * them; on the device only if the reader wants that. `docs/page.md` and `SECURITY.md` say what that means.
 */

import { byId, el, say } from "./dom.js";
import { t } from "./i18n.js";
import { browserStorage } from "./languages.js";

const NAME = "dragoman.key";
const ANSWER_MS = 300; // in which another tab that has a key gives it

const device = browserStorage();
const session = sessionStore();
const tabs = "BroadcastChannel" in window ? new BroadcastChannel(NAME) : null;
const listeners = new Set();

let known = read(session) ?? read(device);
let asking = null;
let declined = false;
let parts = null;

function sessionStore() {
  try {
    return window.sessionStorage;
  } catch {
    return null;
  }
}

function read(store) {
  try {
    return store?.getItem(NAME) ?? null;
  } catch {
    return null;
  }
}

/** A full or forbidden store keeps nothing: the key is then known while the page is open. */
function write(store, key) {
  try {
    if (key) store?.setItem(NAME, key);
    else store?.removeItem(NAME);
  } catch {
    // see above
  }
}

/** The header with the key, where there is one. */
export const keyHeaders = () => headersOf(known);

const headersOf = (key) => (key ? { Authorization: `Bearer ${key}` } : {});

/** Four digits that differ for most keys, and say nothing of them: whose something in the browser's store is. */
export function keyMark() {
  let sum = 0;
  for (const letter of known ?? "") sum = (31 * sum + letter.codePointAt(0)) % 65_521;
  return sum.toString(16).padStart(4, "0");
}

/** Call `listener` when the reader has given a key after having been without: what has failed can be tried again. */
export const onKey = (listener) => listeners.add(listener);

/**
 * Ask the other tabs, and then the reader, once for all requests that wait for it, unless another key than `refused` is known
 * by now. A reader who has cancelled is asked again only for what they have just wanted (`wanted`), or by the notice's button.
 * @param {string | undefined} refused the header that the server did not accept
 * @returns {Promise<boolean>} whether there is one to try
 */
export async function askForKey(refused, wanted = false) {
  if (keyHeaders().Authorization !== refused) return true;
  if (declined && !wanted) return false;
  asking ??= given(refused).finally(() => (asking = null));
  return asking;
}

async function given(refused) {
  if (await fromAnotherTab(refused)) return true;
  const has = await dialog(t(refused ? "key.unknown" : "key.needed"));
  declined = !has;
  parts.notice.hidden = has;
  return has;
}

/** Whether another tab has a key that is not the refused one. */
function fromAnotherTab(refused) {
  if (!tabs) return false;
  tabs.postMessage({ wants: true });
  return new Promise((resolve) => {
    const closed = new AbortController();
    const end = (has) => {
      closed.abort();
      clearTimeout(timer);
      resolve(has);
    };
    const timer = setTimeout(() => end(false), ANSWER_MS);
    tabs.addEventListener("message", () => keyHeaders().Authorization !== refused && end(true), { signal: closed.signal });
  });
}

function use(key, onDevice) {
  known = key;
  offer();
  write(session, key);
  write(device, onDevice ? key : null);
}

tabs?.addEventListener("message", ({ data }) => {
  if (data?.wants && known) tabs.postMessage({ key: known });
  if (typeof data?.key === "string" && data.key !== known) {
    known = data.key;
    write(session, known);
    offer();
    if (parts?.box.open) parts.close(true);
    else if (declined) resume();
  }
  if (data?.forget) forget();
});

/** Forget the key in this tab; what it has shown stays until the page is reloaded. */
function forget() {
  known = null;
  write(session, null);
  write(device, null);
  offer();
}

function resume() {
  declined = false;
  if (parts) parts.notice.hidden = true;
  offer();
  for (const listener of listeners) listener();
}

/** The button that opens the dialogue, where there is a key to change or to forget. */
function offer() {
  byId("key-open").hidden = !known;
}

/** Let the reader change or forget the key. */
async function manage() {
  if (!asking && (await dialog(t("key.yours")))) resume();
}

/** Ask for the key again after the reader has cancelled, and try again what has failed. */
async function again() {
  if (await askForKey(keyHeaders().Authorization, true)) resume();
}

/** Forget the key everywhere, and begin anew. */
function forgetEverywhere() {
  tabs?.postMessage({ forget: true });
  forget();
  location.reload();
}

function dialog(reason) {
  parts ??= build();
  say(parts.reason, reason);
  parts.field.value = "";
  parts.onDevice.checked = read(device) !== null;
  parts.forget.hidden = !known;
  parts.box.showModal();
  return new Promise((resolve) => {
    const closed = new AbortController();
    parts.close = (has) => {
      closed.abort();
      parts.box.close();
      resolve(has);
    };
    const submit = (event) => {
      event.preventDefault();
      const key = parts.field.value.trim();
      if (!key) return;
      use(key, parts.onDevice.checked);
      tabs?.postMessage({ key });
      parts.close(true);
    };
    const cancel = (event) => {
      event.preventDefault();
      parts.close(false);
    };
    parts.form.addEventListener("submit", submit, { signal: closed.signal });
    parts.cancel.addEventListener("click", cancel, { signal: closed.signal });
    parts.box.addEventListener("cancel", cancel, { signal: closed.signal });
  });
}

/** The dialogue, and the notice of a page without a key, which are the same on all pages. */
function build() {
  const reason = el("h2", { id: "key-reason" });
  const field = el("input", { type: "password", id: "key", autocomplete: "off", spellcheck: "false", required: "", "aria-describedby": "key-help" });
  const onDevice = el("input", { type: "checkbox", id: "key-on-device" });
  const cancel = el("button", { type: "button", id: "key-cancel" }, t("key.not_now"));
  const forget = el("button", { type: "button", id: "key-forget" }, t("key.forget"));
  const form = el(
    "form",
    { id: "key-form" },
    reason,
    el("p", { id: "key-help" }, t("key.help")),
    el("p", { class: "pick" }, el("label", { for: "key" }, t("key.label")), field),
    el("p", { class: "keep" }, onDevice, el("label", { for: "key-on-device" }, t("key.keep"))),
    el("p", { class: "foot" }, el("button", { type: "submit" }, t("key.use")), cancel, forget),
  );
  const box = el("dialog", { id: "key-dialog", "aria-labelledby": "key-reason" }, form);
  const ask = el("button", { type: "button", id: "key-again" }, t("key.enter"));
  const notice = el("p", { class: "notice", id: "key-notice", role: "status", hidden: "" }, `${t("key.notice")} `, ask);
  ask.addEventListener("click", again);
  forget.addEventListener("click", forgetEverywhere);
  document.querySelector("main").prepend(notice);
  document.body.append(box);
  return { box, form, reason, field, onDevice, cancel, forget, notice, close: () => {} };
}

byId("key-open").addEventListener("click", manage);
offer();
