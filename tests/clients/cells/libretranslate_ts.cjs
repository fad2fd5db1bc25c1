// libretranslate-ts. It raises nothing: a failed call has `error`.
const { URL, KEY, TEXT, JA, assert, cell, main } = require("./cells.cjs");
const { libreTranslate } = require("libretranslate-ts");

libreTranslate.setApiEndpoint(URL);
libreTranslate.setApiKey(KEY);

cell("text", "translate", async () => {
  const found = await libreTranslate.translate(TEXT, "en", "ja");
  assert.deepStrictEqual([found.status, found.translatedText, found.error], [200, JA, undefined]);
});
cell("text", "alternatives", async () => {
  const found = await libreTranslate.translate(TEXT, "auto", "ja", 3);
  assert.strictEqual(new Set([found.translatedText, ...found.alternatives]).size, 1 + found.alternatives.length);
  assert(found.alternatives.length <= 3);
});
cell("detection", "detect", async () => {
  const found = await libreTranslate.detect(TEXT);
  assert.deepStrictEqual([found.status, found.language], [200, "en"]);
});
cell("languages", "listLanguages", async () => {
  assert((await libreTranslate.listLanguages()).some((one) => one.code === "ja"));
});

main(async (key) => {
  libreTranslate.setApiKey(key);
  const found = await libreTranslate.translate(TEXT, "en", "ja");
  if (found.error) throw new Error(`error: ${found.error}`);
  return found.translatedText;
});
