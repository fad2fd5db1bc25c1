/** What went wrong or may have, in the reader's words; the server's own are one click away where they are in another language. */

import { el } from "./dom.js";
import { has, t } from "./i18n.js";
import { ServerError } from "./server.js";

/** A sentence, and the server's words behind it. @param {Error} error @returns {(string | HTMLElement)[]} */
export function fault(error) {
  if (!(error instanceof ServerError)) return withDetail(t("error.page"), error.message);
  return withDetail(error.sentence, error.detail);
}

/** Something for people, and what the server says of it in its own language, if anything. */
export function withDetail(sentence, detail) {
  if (!detail) return [sentence];
  return [sentence, el("details", { class: "detail" }, el("summary", {}, t("page.detail")), el("span", { lang: "en", dir: "ltr" }, detail))];
}

/** Show in an element what went wrong, or nothing. What is a fault of the page is thrown again. @param {Error | null} [error] */
export function showFault(place, error) {
  place.replaceChildren(...(error ? fault(error) : []));
  throwUnknown(error);
}

/** What is a fault of the page, and not of the server, is thrown. @param {Error | null} [error] */
export function throwUnknown(error) {
  if (error && !(error instanceof ServerError)) throw error;
}

const MOST_LISTED = 5;

/** What a warning of a translation means. @param {{code: string, message: string, missing?: string[]}} warning @param {string} [language] that the text is in */
export function warningOf({ code, message, missing = [] }, language = "") {
  if (!has(`warning.${code}`)) return message;
  const warning = t(`warning.${code}`, { language });
  if (!missing.length) return warning;
  const more = missing.length - MOST_LISTED;
  const listed = [...missing.slice(0, MOST_LISTED), ...(more > 0 ? [t("count.more", { count: more })] : [])];
  return t("warning.listed", { warning: warning.replace(/[.。]$/, ""), list: listed.join(", ") });
}
