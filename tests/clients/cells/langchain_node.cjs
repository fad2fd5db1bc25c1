// @langchain/openai.
const { URL, KEY, EXPECTED, JA, TEXT, TEXTS, assert, cell, main } = require("./cells.cjs");
const { ChatOpenAI } = require("@langchain/openai");

const chat = (model = "dragoman/ja", apiKey = KEY, options = {}) =>
  new ChatOpenAI({ model, apiKey, configuration: { baseURL: `${URL}/v1` }, ...options });
const schema = {
  title: "Answer", type: "object", properties: { translation: { type: "string" } }, required: ["translation"],
  additionalProperties: false,
};

cell("text", "ChatOpenAI.invoke: chat completions and responses", async () => {
  assert.strictEqual((await chat().invoke(TEXT)).text, JA);
  assert.strictEqual((await chat("dragoman/ja", KEY, { useResponsesApi: true }).invoke(TEXT)).text, JA);
});
cell("text", "the target in a system message", async () => {
  const found = await chat("gpt-4o-mini").invoke([["system", "Translate to Korean."], ["human", TEXT]]);
  assert.strictEqual(found.text, EXPECTED.ko[0]);
});
cell("batch", "batch", async () => {
  assert.deepStrictEqual((await chat().batch(TEXTS)).map((one) => one.text), EXPECTED.ja);
});
cell("streaming", "stream: chat completions and responses", async () => {
  for (const one of [chat(), chat("dragoman/ja", KEY, { useResponsesApi: true })]) {
    let text = "";
    for await (const part of await one.stream(TEXT)) text += part.text;
    assert.strictEqual(text, JA);
  }
});
cell("structured", "withStructuredOutput: jsonSchema, functionCalling", async () => {
  for (const method of ["jsonSchema", "functionCalling"]) {
    const found = await chat().withStructuredOutput(schema, { method }).invoke(TEXT);
    assert.deepStrictEqual(found, { translation: JA });
  }
});

main(async (key) => (await chat("dragoman/ja", key, { maxRetries: 0 }).invoke(TEXT)).text);
