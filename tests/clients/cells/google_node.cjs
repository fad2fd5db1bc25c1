// @google-cloud/translate, version 2.
const { URL, KEY, EXPECTED, JA, TEXT, TEXTS, assert, cell, japanese, main, sameTags } = require("./cells.cjs");
const { v2 } = require("@google-cloud/translate");

process.env.GOOGLE_CLOUD_TRANSLATE_ENDPOINT = `${URL}/language/translate/v2`; // apiEndpoint is always taken with https
const clientOf = (key) => new v2.Translate({ key, projectId: "any" });
const client = clientOf(KEY);

cell("text", "translate, the source detected", async () => {
  assert.strictEqual((await client.translate(TEXT, { to: "ja", format: "text" }))[0], JA);
});
cell("batch", "an array of texts, in order", async () => {
  assert.deepStrictEqual((await client.translate(TEXTS, { from: "en", to: "ja", format: "text" }))[0], EXPECTED.ja);
});
cell("tags", "HTML", async () => {
  const source = "<p>Where is the <b>train station</b>?</p>";
  const [found] = await client.translate(source, { from: "en", to: "ja", format: "html" });
  sameTags(found, source);
  japanese(found);
});
cell("detection", "detect", async () => {
  const [found] = await client.detect([TEXT, JA]);
  assert.deepStrictEqual(found.map((one) => one.language), ["en", "ja"]);
});
cell("languages", "getLanguages with names", async () => {
  const names = Object.fromEntries((await client.getLanguages("en"))[0].map((one) => [one.code, one.name]));
  assert.deepStrictEqual([names.ja, names.ko], ["Japanese", "Korean"]);
});

main(async (key) => (await clientOf(key).translate(TEXT, { from: "en", to: "ja" }))[0]);
