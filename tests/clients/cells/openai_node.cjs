// openai, the client for Node.
const { URL, KEY, TEXT, TEXTS, JA, EXPECTED, assert, cell, main } = require("./cells.cjs");
const crypto = require("node:crypto");
const OpenAI = require("openai");

const clientOf = (apiKey) => new OpenAI({ baseURL: `${URL}/v1`, apiKey });
const client = clientOf(KEY);
const messages = [{ role: "user", content: TEXT }];

cell("text", "chat.completions.create; the target in the model's name, and usage", async () => {
  const found = await client.chat.completions.create({ model: "dragoman/ja", messages });
  assert.deepStrictEqual([found.choices[0].message.content, found.choices[0].finish_reason], [JA, "stop"]);
  const content = `I have ${crypto.randomInt(100, 1000)} books.`; // tokens are those that were generated: none from the cache
  const { usage } = await client.chat.completions.create({ model: "dragoman/ja", messages: [{ role: "user", content }] });
  assert(usage.prompt_tokens > 0 && usage.completion_tokens > 0);
});
cell("streaming", "stream: true, with usage at the end", async () => {
  const stream = await client.chat.completions.create({
    model: "dragoman/ja", messages, stream: true, stream_options: { include_usage: true },
  });
  let text = "";
  let last;
  for await (const chunk of stream) {
    text += chunk.choices[0]?.delta?.content ?? "";
    last = chunk;
  }
  assert.strictEqual(text, JA);
  assert.strictEqual(typeof last.usage.total_tokens, "number");
});
cell("batch", "calls in flight together", async () => {
  const one = (content) =>
    client.chat.completions.create({ model: "dragoman/ja", messages: [{ role: "user", content }] });
  const found = await Promise.all(TEXTS.map(one));
  assert.deepStrictEqual(found.map((answer) => answer.choices[0].message.content), EXPECTED.ja);
});
cell("languages", "models.list", async () => {
  const found = (await client.models.list()).data.map((one) => one.id);
  assert(found.includes("dragoman/ja"), String(found));
});
cell("errors", "no target: BadRequestError", async () => {
  await assert.rejects(client.chat.completions.create({ model: "gpt-4o-mini", messages }), OpenAI.BadRequestError);
});

main(async (key) => (await clientOf(key).chat.completions.create({ model: "dragoman/ja", messages })).choices[0].message.content);
