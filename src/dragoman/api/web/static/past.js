/**
 * The history of texts: sources with their translations, in this browser's store alone. Off until the reader turns it on; what is
 * kept is deleted when it is turned off. Knows no server.
 */

import { byId, el } from "./dom.js";
import { browserStorage, mark } from "./languages.js";

const STORE = "dragoman.history";
const MOST = 100;
const MOST_CHARACTERS = 500_000;

/** @typedef {{text: string, source: string, target: string, translation: string}} Past `source`: a tag, or "" where it is not known */

const sizeOf = ({ text, translation }) => text.length + translation.length;

export class TextHistory {
  /** @param {{onChosen: (past: Past) => void}} listener */
  constructor({ onChosen }) {
    this.storage = browserStorage();
    this.onChosen = onChosen;
    this.isOn = byId("past-on");
    this.isOn.checked = this.read() !== null;
    this.isOn.addEventListener("change", () => this.write(this.isOn.checked ? [] : null));
    byId("past-clear").addEventListener("click", () => this.write([]));
    this.isOn.disabled = !this.storage;
    this.show();
  }

  /** What is kept, the newest first; null: nothing is to be kept. @returns {Past[] | null} */
  read() {
    try {
      const kept = JSON.parse(this.storage?.getItem(STORE) ?? "null");
      return Array.isArray(kept) ? kept.filter((one) => typeof one?.text === "string" && typeof one.translation === "string") : null;
    } catch {
      return null; // somebody else's value under our key
    }
  }

  write(kept) {
    try {
      if (kept) this.storage?.setItem(STORE, JSON.stringify(kept));
      else this.storage?.removeItem(STORE);
    } catch {
      // a full or forbidden store: what was kept before stays
    }
    this.show();
  }

  /** Keep a text as the newest, where the reader wants that; one that went on being typed takes the place of its beginning. @param {Past} past */
  add(past) {
    const before = this.read();
    if (!before || !past.text.trim() || sizeOf(past) > MOST_CHARACTERS) return;
    const isSame = (one) => one.target === past.target && (one.text.startsWith(past.text) || past.text.startsWith(one.text));
    const others = before.filter((one, at) => (at ? one.text !== past.text || one.target !== past.target : !isSame(one)));
    const kept = [past, ...others];
    let left = MOST_CHARACTERS;
    const fitting = kept.slice(0, MOST).filter((one) => {
      const fits = sizeOf(one) <= left;
      if (fits) left -= sizeOf(one);
      return fits;
    });
    this.write(fitting);
  }

  show() {
    const kept = this.read() ?? [];
    byId("past-clear").hidden = !kept.length;
    byId("past-list").replaceChildren(...kept.map((one) => this.item(one)));
  }

  item(one) {
    const text = el("span", { class: "begins" }, one.text);
    const translation = el("span", { class: "begins" }, one.translation);
    mark(text, one.source);
    mark(translation, one.target);
    const button = el("button", { type: "button", class: "alternative" }, text, translation);
    button.addEventListener("click", () => this.onChosen(one));
    return el("li", {}, button);
  }
}
