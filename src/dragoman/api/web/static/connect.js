/** What to type into other programs so that they translate with this server. */

import { byId, el, say } from "./dom.js";
import * as server from "./server.js";
import { copyText } from "./translator.js";

const KEY = "KEY";

const root = (at) => at("").replace(/\/$/, "");

/** Where a program asks for the address and for the key, and a line that says both. `at` makes addresses of paths. */
const PROGRAMS = {
  "curl": {
    address: (at) => at("v1/translate"),
    key: "the header X-API-Key",
    line: (at, key) => `curl ${at("v1/translate")}${key && ` -H 'X-API-Key: ${key}'`} -H 'Content-Type: application/json' -d '{"text": "Good morning.", "target": "ja"}'`,
  },
  "DeepL's libraries": {
    address: (at) => at(""),
    key: "the first argument",
    line: (at, key) => `client = deepl.DeepLClient("${key || "-"}", server_url="${at("")}")`,
  },
  "OpenAI's libraries": {
    address: (at) => at("v1"),
    key: "api_key",
    line: (at, key) => `client = OpenAI(base_url="${at("v1")}", api_key="${key || "-"}")  # model="dragoman/ja"`,
  },
  "Programs for LibreTranslate": {
    address: root,
    key: "API key",
    line: (at, key) => `translator = LibreTranslateAPI("${at("")}", "${key || "-"}")`,
  },
  "Immersive Translate": {
    address: (at) => at("immersive/translate"),
    key: "after ?key= in the API URL of “Custom API”",
    line: (at, key) => at("immersive/translate") + (key && `?key=${key}`),
  },
  "KISS Translator": {
    address: (at) => at("kiss/translate"),
    key: "Key of the interface “Custom”",
    line: (at) => at("kiss/translate"),
  },
  "Zotero PDF Translate": {
    address: root,
    key: "the secret of the service “LibreTranslate”",
    line: root,
  },
  "Subtitle Edit": {
    address: (at) => at(""),
    key: "API key of the engine “LibreTranslate”",
    line: (at) => at(""),
  },
  "Weblate": {
    address: (at) => at("v2/"),
    key: "API key of the suggestion “DeepL”",
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
    say(byId("connect-key"), this.needsKey ? `${key}: a key of this server for ${KEY}` : "This server needs none; where the program does, any text.");
    say(byId("connect-line"), line(at, this.needsKey ? KEY : ""));
  }

  async copy() {
    const button = byId("copy-line");
    try {
      await copyText(byId("connect-line"));
      say(button, "Copied");
    } catch {
      say(button, "Not allowed");
    }
    setTimeout(() => say(button, "Copy"), 1500);
  }
}
