// translate (npm) with its engine `libre`.
const { URL, KEY, TEXT, TEXTS, JA, EXPECTED, assert, cell, main } = require("./cells.cjs");

const loaded = import("translate");
const translator = async (key) => {
  const { Translate } = (await loaded).default;
  return Translate({ engine: "libre", url: `${URL}/translate`, key, from: "en", to: "ja", cache: 1 });
};

cell("text", "translate", async () => assert.strictEqual(await (await translator(KEY))(TEXT, "ja"), JA));
cell("batch", "several calls in flight", async () => {
  const translate = await translator(KEY);
  assert.deepStrictEqual(await Promise.all(TEXTS.map((text) => translate(text, "ja"))), EXPECTED.ja);
});

main(async (key) => (await translator(key))(TEXT, "ja"));
