// @modelcontextprotocol/sdk, the protocol's client for TypeScript, which most agents are built with.
const { URL: SERVER, KEY, TEXT, TEXTS, JA, EXPECTED, FILES, assert, cell, sameTags, translatedFile, main } = require("./cells.cjs");
const fs = require("node:fs");
const path = require("node:path");
const { Client } = require("@modelcontextprotocol/sdk/client/index.js");
const { StreamableHTTPClientTransport } = require("@modelcontextprotocol/sdk/client/streamableHttp.js");

async function connected(key) {
  const headers = { Authorization: `Bearer ${key}` };
  const client = new Client({ name: "cells", version: "1" });
  await client.connect(new StreamableHTTPClientTransport(new URL(`${SERVER}/mcp`), { requestInit: { headers } }));
  await client.listTools(); // from now on answers are compared with the schemas of their tools
  return client;
}

let open;
const client = () => (open ??= connected(KEY));

async function call(name, args, options) {
  const found = await (await client()).callTool({ name, arguments: args }, undefined, options);
  assert(!found.isError, JSON.stringify(found.content));
  return found;
}

const translate = async (args) => (await call("translate", { source: "en", target: "ja", ...args })).structuredContent;

cell("text", "translate, with warnings and confidence; the same as text", async () => {
  const found = await call("translate", { text: TEXT, source: "en", target: "ja" });
  const [one] = found.structuredContent.translations;
  assert.deepStrictEqual([one.text, one.warnings, typeof one.confidence], [JA, [], "number"]);
  assert.deepStrictEqual(JSON.parse(found.content[0].text), found.structuredContent);
});
cell("batch", "several texts in one call, in order; calls in flight together", async () => {
  const { translations } = await translate({ text: TEXTS });
  assert.deepStrictEqual(translations.map((one) => one.text), EXPECTED.ja);
  const found = await Promise.all(TEXTS.map((text) => translate({ text })));
  assert.deepStrictEqual(found.map((one) => one.translations[0].text), EXPECTED.ja);
});
cell("tags", "format: html", async () => {
  const source = "<p>Can I pay by <b>credit card</b>?</p>";
  sameTags((await translate({ text: source, format: "html" })).translations[0].text, source);
});
cell("detection", "detect_language", async () => {
  const { detections } = (await call("detect_language", { text: [TEXT, EXPECTED.ko[0]] })).structuredContent;
  assert.deepStrictEqual(detections.map((one) => one.language), ["en", "ko"]);
});
cell("languages", "list_languages", async () => {
  const { languages } = (await call("list_languages", {})).structuredContent;
  assert(["en", "ja", "ko"].every((code) => languages.some((one) => one.code === code)), JSON.stringify(languages));
});
cell("glossaries", "list_glossaries; terms of a call", async () => {
  assert(Array.isArray((await call("list_glossaries", {})).structuredContent.glossaries));
  const { translations } = await translate({ text: "I have a book.", glossary: { book: "書物" } });
  assert(translations[0].text.includes("書物") || translations[0].warnings.length, JSON.stringify(translations));
});
cell("documents", "translate_document: a docx as base64, srt as text, with progress", async () => {
  const content = fs.readFileSync(path.join(FILES, "a.docx")).toString("base64");
  const docx = await call("translate_document", { file_name: "a.docx", content_base64: content, source: "en", target: "ja" });
  const text = fs.readFileSync(path.join(FILES, "a.srt"), "utf-8");
  const srt = await call("translate_document", { file_name: "a.srt", text, source: "en", target: "ja" }, { onprogress: () => {} });
  for (const [found, file] of [[docx, "b.docx"], [srt, "b.srt"]]) {
    const { resource } = found.content.find((one) => one.type === "resource");
    const written = resource.text === undefined ? Buffer.from(resource.blob, "base64") : resource.text;
    fs.writeFileSync(path.join(FILES, file), written);
    translatedFile(path.join(FILES, file));
  }
});
cell("documents", "wait_s: 0, and get_document until it is done", async () => {
  const text = "# Good morning.\n";
  const begun = await call("translate_document", { file_name: "a.md", text, source: "en", target: "ja", wait_s: 0 });
  const asked = { document_id: begun.structuredContent.document.id, wait_s: 50 };
  const { document, result } = (await call("get_document", asked)).structuredContent;
  assert.deepStrictEqual([document.state, result.name], ["done", "a.md"]);
});
cell("errors", "an unknown language: isError, with a code; an unknown tool: an error of the protocol", async () => {
  const found = await (await client()).callTool({ name: "translate", arguments: { text: TEXT, target: "tlh" } });
  assert.deepStrictEqual([found.isError, JSON.parse(found.content[0].text).error.code], [true, "unsupported_language"]);
  await assert.rejects(call("translation", {}));
});
cell("errors", "a call that is aborted ends, and the next is served", async () => {
  const aborted = new AbortController();
  const pending = translate({ text: TEXTS }).catch((error) => error);
  const long = (await client()).callTool(
    { name: "translate", arguments: { text: Array.from({ length: 900 }, (_, n) => `I have ${n} books.`), source: "en", target: "ja" } },
    undefined,
    { signal: aborted.signal },
  );
  setImmediate(() => aborted.abort("not needed"));
  await assert.rejects(long);
  await pending;
  assert.strictEqual((await translate({ text: TEXT })).translations[0].text, JA);
});

main(async (key) => {
  const other = await connected(key);
  try {
    const found = await other.callTool({ name: "translate", arguments: { text: TEXT, source: "en", target: "ja" } });
    if (found.isError) {
      throw new Error(JSON.parse(found.content[0].text).error.message);
    }
    return found.structuredContent.translations[0].text;
  } finally {
    await other.close();
  }
}).then(async () => (await client()).close());
