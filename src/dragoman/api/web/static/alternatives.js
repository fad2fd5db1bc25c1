/** Other translations of the text: a button asks for them, and the one that is chosen changes places with the one shown. */

import { byId, el } from "./dom.js";
import { certainty } from "./format.js";
import { t } from "./i18n.js";
import { mark } from "./languages.js";
import * as server from "./server.js";

const COUNT = 3;

export class Alternatives {
  /**
   * @param {{onChosen: (translation: {text: string, confidence: number | null, warnings: object[]}) => void, onFault: (error: Error) => void}} handlers
   */
  constructor({ onChosen, onFault }) {
    this.onChosen = onChosen;
    this.onFault = onFault;
    this.button = byId("more");
    this.place = byId("others");
    this.running = null;
    this.button.addEventListener("click", () => (this.isOpen ? this.close() : this.ask()));
    this.place.addEventListener("keydown", (event) => this.pressed(event));
    this.clear();
  }

  get isOpen() {
    return this.button.getAttribute("aria-expanded") === "true";
  }

  /** Offer those of a translation that is shown, of the text that `request` asked for. */
  offer(request, translation) {
    this.request = request;
    this.shown = translation;
    this.button.disabled = translation.finish_reason === "unchanged";
  }

  /** There is no translation, or not yet. */
  clear() {
    this.close();
    this.button.disabled = true;
  }

  close() {
    this.running?.abort();
    this.running = null;
    this.button.setAttribute("aria-expanded", "false");
    this.place.replaceChildren();
  }

  pressed(event) {
    if (event.key !== "Escape") return;
    event.preventDefault();
    this.close();
    this.button.focus();
  }

  async ask() {
    const job = (this.running = new AbortController());
    this.button.setAttribute("aria-expanded", "true");
    this.say(t("translate.again"));
    try {
      const found = await server.otherTranslations(this.request, COUNT, job.signal);
      this.list(found.filter(({ text }) => text !== this.shown.text));
    } catch (error) {
      if (job.signal.aborted) return;
      this.close();
      this.onFault(error);
    }
  }

  say(sentence) {
    this.place.replaceChildren(el("p", { role: "status" }, sentence));
  }

  list(found) {
    if (!found.length) return this.say(t("translate.no_others"));
    const items = found.map((one, index) => {
      const choose = el("button", { type: "button", class: "alternative" }, one.text);
      choose.addEventListener("click", () => this.choose(found, index));
      mark(choose, this.request.target);
      return el("li", {}, choose, el("span", { class: "figure" }, certainty(one)));
    });
    this.place.replaceChildren(el("ul", { "aria-label": t("translate.others") }, ...items));
  }

  choose(found, index) {
    const chosen = found[index];
    const others = found.with(index, this.shown);
    this.shown = chosen;
    this.list(others);
    this.place.querySelectorAll("button")[index].focus();
    this.onChosen(chosen);
  }
}
