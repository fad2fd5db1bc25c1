/**
 * The page in the reader's language: texts by their keys, numbers, shares and times as people write them there.
 *
 * A catalogue of `locales/` is JSON as i18next has it: `{{name}}` is a value, and a key that ends with `_one`, `_other` or
 * another category of `Intl.PluralRules` is chosen by the value `count`. dragoman translates such files.
 */

const STORE = "dragoman.page-language";
const RTL_SCRIPTS = new Set(["Adlm", "Arab", "Aran", "Hebr", "Mand", "Nkoo", "Rohg", "Samr", "Syrc", "Thaa"]);
const SERVERS = "en"; // the language of the server's messages

/** The languages of the page, by their own names. */
const LOCALES = { en: "English", de: "Deutsch", es: "Español", fr: "Français", ja: "日本語", ko: "한국어", zh: "中文" };

/** The language of a tag, without script and region. */
export const primary = (tag) => tag.split("-")[0].toLowerCase();

function kept() {
  try {
    return localStorage.getItem(STORE) ?? "";
  } catch {
    return ""; // a forbidden store
  }
}

/** The language of the page: the one chosen in it, or else the first of the reader's that it has. */
export const locale = [kept(), ...navigator.languages].map(primary).find((tag) => Object.hasOwn(LOCALES, tag)) ?? SERVERS;

/** The same with the reader's region, which has its own numbers and dates. */
const region = navigator.languages.find((tag) => primary(tag) === locale) ?? locale;

/** Whether the server's messages are in the language of the page. */
export const speaksAsServer = locale === SERVERS;

const catalogue = await (await fetch(new URL(`locales/${locale}.json`, import.meta.url))).json();
const messages = new Map(Object.entries(catalogue).flatMap(([section, texts]) => Object.entries(texts).map(([key, text]) => [`${section}.${key}`, text])));
const plurals = new Intl.PluralRules(locale);
const whole = new Intl.NumberFormat(region, { maximumFractionDigits: 0 });

/** Whether there is a text of this key, which has no plural. */
export const has = (key) => messages.has(key);

/** The text of a key with values in it; numbers among them are written as whole ones. */
export function t(key, values = {}) {
  const { count } = values;
  const text = (count !== undefined && (messages.get(`${key}_${plurals.select(count)}`) ?? messages.get(`${key}_other`))) || (messages.get(key) ?? key);
  return text.replace(/\{\{(\w+)\}\}/g, (_, name) => (typeof values[name] === "number" ? whole.format(values[name]) : values[name]));
}

/** The text of a key as nodes: `<kbd>` and `<code>` in it are elements. */
function rich(key) {
  return t(key)
    .split(/<(kbd|code)>(.*?)<\/\1>/)
    .reduce((nodes, part, at, parts) => {
      if (at % 3 === 1) nodes.push(Object.assign(document.createElement(part), { textContent: parts[at + 1] }));
      else if (at % 3 === 0 && part) nodes.push(part);
      return nodes;
    }, []);
}

/** A number with so many digits after the point at most, and at least. */
export const decimal = (number, most = 0, least = most) => new Intl.NumberFormat(region, { minimumFractionDigits: least, maximumFractionDigits: most }).format(number);

/** A share of one: 3.1% */
export const percent = (share, digits = 0) => new Intl.NumberFormat(region, { style: "percent", minimumFractionDigits: digits, maximumFractionDigits: digits }).format(share);

/** A moment: the day, with its time where that matters. @param {Date | number} moment */
export const day = (moment) => new Intl.DateTimeFormat(region, { dateStyle: "medium" }).format(moment);
export const dayAndTime = (moment) => new Intl.DateTimeFormat(region, { dateStyle: "medium", timeStyle: "short" }).format(moment);

/** So many seconds, minutes or hours in words. @param {"second" | "minute" | "hour"} unit */
export const time = (number, unit) => new Intl.NumberFormat(region, { style: "unit", unit, unitDisplay: "long" }).format(number);

const names = new Intl.DisplayNames([locale], { type: "language" });

/** What a language is called, or "" of one that the browser has no name for. */
export function languageName(tag) {
  try {
    const name = names.of(tag);
    return name === tag ? "" : name;
  } catch {
    return ""; // the tag is the server's; one that the browser cannot read is no reason to show nothing
  }
}

/** `rtl` or `ltr`, by the script that a language is written in. */
export function direction(tag) {
  try {
    return RTL_SCRIPTS.has(new Intl.Locale(tag).maximize().script) ? "rtl" : "ltr";
  } catch {
    return "ltr"; // as with `languageName`
  }
}

const ATTRIBUTES = { "data-t-label": "aria-label", "data-t-placeholder": "placeholder", "data-t-content": "content" };

/** Fill in the texts of the page's HTML, and offer its languages in the menu at the top. */
export function localise() {
  Object.assign(document.documentElement, { lang: locale, dir: direction(locale) });
  for (const element of document.querySelectorAll("[data-t]")) element.replaceChildren(...rich(element.dataset.t));
  for (const [marked, attribute] of Object.entries(ATTRIBUTES)) {
    for (const element of document.querySelectorAll(`[${marked}]`)) element.setAttribute(attribute, t(element.getAttribute(marked)));
  }
  offerLocales(document.getElementById("page-language"));
}

function offerLocales(menu) {
  for (const [tag, name] of Object.entries(LOCALES)) {
    const option = Object.assign(document.createElement("option"), { value: tag, lang: tag, textContent: name });
    menu.append(option);
  }
  menu.value = locale;
  menu.addEventListener("change", () => {
    try {
      localStorage.setItem(STORE, menu.value);
    } catch {
      return; // a forbidden store: the browser's languages decide
    }
    location.reload();
  });
}
