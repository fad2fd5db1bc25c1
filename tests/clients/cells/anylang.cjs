// anylang, the translators of Linguist.
const { URL, KEY, EXPECTED, JA, TEXT, TEXTS, assert, cell, main } = require("./cells.cjs");

const load = async () => ({ ...(await import("anylang/translators")) });

cell("text", "LibreTranslateTranslator.translate", async () => {
  const { LibreTranslateTranslator } = await load();
  const translator = new LibreTranslateTranslator({ apiEndpoint: `${URL}/translate`, apiKey: KEY });
  assert.strictEqual(await translator.translate(TEXT, "en", "ja"), JA);
});
cell("batch", "LLMTranslator.translateBatch, with ChatGPTLLMFetcher", async () => {
  const { LLMTranslator, ChatGPTLLMFetcher } = await load();
  const fetcher = new ChatGPTLLMFetcher({ apiKey: KEY, model: "dragoman", apiOrigin: URL });
  assert.deepStrictEqual(await new LLMTranslator(fetcher).translateBatch(TEXTS, "en", "ja"), EXPECTED.ja);
});

main(async (apiKey) => {
  const { LibreTranslateTranslator } = await load();
  return new LibreTranslateTranslator({ apiEndpoint: `${URL}/translate`, apiKey }).translate(TEXT, "en", "ja");
});
