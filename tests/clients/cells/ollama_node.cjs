// ollama, the client for Node.
const { URL, KEY, TEXT, TEXTS, JA, EXPECTED, assert, cell, japanese, main } = require("./cells.cjs");
const { Ollama } = require("ollama");

const clientOf = (key) => new Ollama({ host: URL, headers: { Authorization: `Bearer ${key}` } });
const client = clientOf(KEY);
const model = "dragoman/ja";
const messages = [{ role: "user", content: TEXT }];

cell("text", "chat; the target in the model's name", async () => {
  const found = await client.chat({ model, messages });
  assert.deepStrictEqual([found.message.content, found.done, found.done_reason], [JA, true, "stop"]);
  assert(found.eval_duration > 0);
});
cell("text", "generate", async () => {
  assert.strictEqual((await client.generate({ model: "dragoman:ja", prompt: TEXT })).response, JA);
});
cell("batch", "calls in flight together", async () => {
  const found = await Promise.all(TEXTS.map((content) => client.chat({ model, messages: [{ role: "user", content }] })));
  assert.deepStrictEqual(found.map((answer) => answer.message.content), EXPECTED.ja);
});
cell("streaming", "chat and generate, stream: true", async () => {
  let text = "";
  let last;
  for await (const part of await client.chat({ model, messages, stream: true })) {
    text += part.message.content;
    last = part;
  }
  assert.deepStrictEqual([text, last.done], [JA, true]);
  text = "";
  for await (const part of await client.generate({ model, prompt: TEXT, stream: true })) text += part.response;
  assert.strictEqual(text, JA);
});
cell("structured", "format: a JSON schema", async () => {
  const format = { type: "object", properties: { translation: { type: "string" } }, required: ["translation"] };
  japanese(JSON.parse((await client.chat({ model, messages, format })).message.content).translation);
});
cell("languages", "list, show, ps, version", async () => {
  const names = (await client.list()).models.map((one) => one.name);
  assert(names.includes("dragoman/ja:latest"), String(names));
  assert.deepStrictEqual((await client.show({ model })).capabilities, ["completion"]);
  assert.strictEqual((await client.ps()).models.length, 1);
  assert((await client.version()).version);
});
cell("errors", "no target: ResponseError", async () => {
  await assert.rejects(client.chat({ model: "llama3.2", messages }), { name: "ResponseError", status_code: 400 });
});

main(async (key) => (await clientOf(key).chat({ model, messages })).message.content);
