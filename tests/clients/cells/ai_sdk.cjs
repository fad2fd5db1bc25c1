// Cells of Vercel's AI SDK, which its providers share.
const { EXPECTED, JA, TEXT, TEXTS, assert, cell, main } = require("./cells.cjs");

// `provide` makes, for a key, a function from a model's name to a model.
module.exports = async function run({ provide }) {
  const { generateText, streamText, generateObject, streamObject, jsonSchema, Output } = await import("ai");
  const model = await provide();
  const answer = jsonSchema({
    type: "object", properties: { translation: { type: "string" } }, required: ["translation"], additionalProperties: false,
  });
  const lines = jsonSchema({
    type: "object",
    properties: {
      lines: {
        type: "array",
        items: {
          type: "object", properties: { id: { type: "integer" }, text: { type: "string" } },
          required: ["id", "text"], additionalProperties: false,
        },
      },
    },
    required: ["lines"],
    additionalProperties: false,
  });

  cell("text", "generateText, the target in the model's name", async () => {
    const found = await generateText({ model: model("dragoman/ja"), prompt: TEXT });
    assert.deepStrictEqual([found.text, found.finishReason], [JA, "stop"]);
  });
  cell("text", "generateText with system: 'Translate to Korean.'", async () => {
    const found = await generateText({ model: model("gpt-5"), system: "Translate to Korean.", prompt: TEXT });
    assert.strictEqual(found.text, EXPECTED.ko[0]);
  });
  cell("batch", "calls in flight together", async () => {
    const found = await Promise.all(TEXTS.map((prompt) => generateText({ model: model("dragoman/ja"), prompt })));
    assert.deepStrictEqual(found.map((one) => one.text), EXPECTED.ja);
  });
  cell("streaming", "streamText", async () => {
    const stream = streamText({ model: model("dragoman/ja"), prompt: TEXT });
    let text = "";
    for await (const part of stream.textStream) text += part;
    assert.deepStrictEqual([text, await stream.finishReason], [JA, "stop"]);
  });
  cell("structured", "generateObject, streamObject; generateText with Output.object", async () => {
    const { object } = await generateObject({ model: model("dragoman/ja"), prompt: TEXT, schema: answer });
    assert.deepStrictEqual(object, { translation: JA });
    const stream = streamObject({ model: model("dragoman/ja"), prompt: TEXT, schema: answer });
    let last;
    for await (const part of stream.partialObjectStream) last = part;
    assert.deepStrictEqual(last, { translation: JA });
    const found = await generateText({ model: model("dragoman/ja"), prompt: TEXT, output: Output.object({ schema: answer }) });
    assert.deepStrictEqual(found.output, { translation: JA });
  });
  cell("structured", "generateObject: a list with the message's ids", async () => {
    const prompt = JSON.stringify({ lines: TEXTS.map((text, place) => ({ id: 7 + place, text })) });
    const { object } = await generateObject({ model: model("dragoman/ja"), prompt, schema: lines });
    assert.deepStrictEqual(object.lines, EXPECTED.ja.map((text, place) => ({ id: 7 + place, text })));
  });

  await main(async (key) =>
    (await generateText({ model: (await provide(key))("dragoman/ja"), prompt: TEXT, maxRetries: 0 })).text);
};
