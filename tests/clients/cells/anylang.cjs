// anylang, the translators of Linguist.
const { URL, KEY, EXPECTED, JA, TEXT, TEXTS, assert, cell, main } = require("./cells.cjs");
const { ChatGPTLLMTranslator } = require("anylang/translators/LLMTranslators/ChatGPTLLMTranslator/index.js");
const { LibreTranslateTranslator } = require("anylang/translators/unstable/index.js");

const libretranslate = (apiKey) => new LibreTranslateTranslator({ apiHost: `${URL}/translate`, apiKey });

cell("text", "LibreTranslateTranslator.translate", async () => {
  assert.strictEqual(await libretranslate(KEY).translate(TEXT, "en", "ja"), JA);
});
cell("batch", "ChatGPTLLMTranslator.translateBatch: a JSON list in one message", async () => {
  const translator = new ChatGPTLLMTranslator({ apiKey: KEY, model: "dragoman", baseUrl: `${URL}/v1` });
  assert.deepStrictEqual(await translator.translateBatch(TEXTS, "en", "ja"), EXPECTED.ja);
});

main((key) => libretranslate(key).translate(TEXT, "en", "ja"));
