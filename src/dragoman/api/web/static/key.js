/** The reader's key, for a server that needs one: asked for when it is, and kept for this tab alone. */

import { byId, say } from "./dom.js";

const STORE = "dragoman.key";

let entered = null; // where the browser forbids its store
let asking = null;
let declined = false;

/** The header with the key, where there is one. */
export function keyHeaders() {
  const key = stored() ?? entered;
  return key ? { Authorization: `Bearer ${key}` } : {};
}

function stored() {
  try {
    return window.sessionStorage.getItem(STORE);
  } catch {
    return null;
  }
}

function keep(key) {
  entered = key;
  try {
    window.sessionStorage.setItem(STORE, key);
  } catch {
    // a full or forbidden store: the key is kept while the page is open
  }
}

/**
 * Ask the reader for a key, once for all requests that wait for it, unless another key than `refused` is known by now.
 * @param {string | undefined} refused the header that the server did not accept
 * @returns {Promise<boolean>} whether there is one to try
 */
export async function askForKey(refused) {
  if (keyHeaders().Authorization !== refused) return true;
  if (declined) return false;
  asking ??= dialog(Boolean(refused)).finally(() => (asking = null));
  return asking;
}

function dialog(wasRefused) {
  const box = byId("key-dialog");
  const field = byId("key");
  say(byId("key-reason"), wasRefused ? "The server did not accept this key." : "This server needs a key.");
  field.value = "";
  box.showModal();
  return new Promise((resolve) => {
    const closed = new AbortController();
    const close = (given) => {
      closed.abort();
      box.close();
      resolve(given);
    };
    const submit = (event) => {
      event.preventDefault();
      const key = field.value.trim();
      if (!key) return;
      keep(key);
      close(true);
    };
    const cancel = () => {
      declined = true;
      close(false);
    };
    byId("key-form").addEventListener("submit", submit, { signal: closed.signal });
    byId("key-cancel").addEventListener("click", cancel, { signal: closed.signal });
    box.addEventListener("cancel", cancel, { signal: closed.signal });
  });
}
