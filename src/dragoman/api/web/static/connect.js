/** What to type into other programs so that they translate with this server. */

import { byId, el, say } from "./dom.js";
import { t } from "./i18n.js";
import * as server from "./server.js";
import { copyText } from "./translator.js";

const KEY = "KEY";

const root = (at) => at("").replace(/\/$/, "");

/** Where a program asks for the address and for the key, and a line that says both. `at` makes addresses of paths. */
const PROGRAMS = {
  "curl": {
    address: (at) => at("v1/translate"),
    key: t("connect.key_header", { name: "X-API-Key" }),
    line: (at, key) => `curl ${at("v1/translate")}${key && ` -H 'X-API-Key: ${key}'`} -H 'Content-Type: application/json' -d '{"text": "Good morning.", "target": "ja"}'`,
  },
  [t("connect.deepl")]: {
    address: (at) => at(""),
    key: t("connect.key_first"),
    line: (at, key) => `client = deepl.DeepLClient("${key || "-"}", server_url="${at("")}")`,
  },
  [t("connect.openai")]: {
    address: (at) => at("v1"),
    key: "api_key",
    line: (at, key) => `client = OpenAI(base_url="${at("v1")}", api_key="${key || "-"}")  # model="dragoman/ja"`,
  },
  [t("connect.libretranslate")]: {
    address: root,
    key: "API key",
    line: (at, key) => `translator = LibreTranslateAPI("${at("")}", "${key || "-"}")`,
  },
  "Immersive Translate": {
    address: (at) => at("immersive/translate"),
    key: t("connect.key_url"),
    line: (at, key) => at("immersive/translate") + (key && `?key=${key}`),
  },
  "KISS Translator": {
    address: (at) => at("kiss/translate"),
    key: t("connect.key_custom"),
    line: (at) => at("kiss/translate"),
  },
  "Zotero PDF Translate": {
    address: root,
    key: t("connect.key_secret"),
    line: root,
  },
  "Subtitle Edit": {
    address: (at) => at(""),
    key: t("connect.key_engine"),
    line: (at) => at(""),
  },
  "Weblate": {
    address: (at) => at("v2/"),
    key: t("connect.key_suggestion"),
    line: (at) => at("v2/"),
  },
  "Mastodon": {
    address: root,
    key: "LIBRE_TRANSLATE_API_KEY",
    line: (at, key) => `LIBRE_TRANSLATE_ENDPOINT=${root(at)}${key && ` LIBRE_TRANSLATE_API_KEY=${key}`}`,
  },
};

const at = (path) => new URL(path, document.baseURI).href;

/** The section "Use it from…". */
export class Connect {
  constructor() {
    this.program = byId("program");
    this.needsKey = true;
    this.program.append(...Object.keys(PROGRAMS).map((name) => el("option", {}, name)));
    this.program.addEventListener("change", () => this.show());
    byId("copy-line").addEventListener("click", () => this.copy());
    this.show();
  }

  /** Ask the server whether it needs a key. */
  async describeKey() {
    this.needsKey = await server.needsKey().catch(() => true);
    this.show();
  }

  show() {
    const { address, key, line } = PROGRAMS[this.program.value];
    say(byId("connect-address"), address(at));
    say(byId("connect-key"), this.needsKey ? t("connect.key_for", { where: key, key: KEY }) : t("connect.no_key"));
    say(byId("connect-line"), line(at, this.needsKey ? KEY : ""));
  }

  async copy() {
    const button = byId("copy-line");
    try {
      await copyText(byId("connect-line"));
      say(button, t("translate.copied"));
    } catch {
      say(button, t("translate.not_allowed"));
    }
    setTimeout(() => say(button, t("translate.copy")), 1500);
  }
}
