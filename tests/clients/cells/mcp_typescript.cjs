// The Model Context Protocol's TypeScript SDK: version 2 (the protocol of 2026, negotiated) and version 1 (that of 2025).
const fs = require("node:fs");
const { URL: ADDRESS, KEY, TEXT, TEXTS, JA, EXPECTED, FILES, assert, cell, translatedFile, main } = require("./cells.cjs");
const present = require("@modelcontextprotocol/client");
const older = {
  ...require("@modelcontextprotocol/sdk/client/index.js"),
  ...require("@modelcontextprotocol/sdk/client/streamableHttp.js"),
};
const SDKS = { "version 2": [present, { versionNegotiation: { mode: "auto" } }], "version 1": [older, {}] };

async function connected([sdk, options], key, run) {
  const client = new sdk.Client({ name: "cells", version: "1" }, options);
  const requestInit = { headers: { Authorization: `Bearer ${key}` } };
  await client.connect(new sdk.StreamableHTTPClientTransport(new URL(`${ADDRESS}/mcp`), { requestInit }));
  try {
    return await run(client);
  } finally {
    await client.close();
  }
}

const call = (client, name, given, options) =>
  client.callTool({ name, arguments: given }, ...(client instanceof older.Client ? [undefined, options] : [options]));

for (const [title, sdk] of Object.entries(SDKS)) {
  cell("text", `${title}: listTools, callTool translate, checked by the tool's output schema`, () =>
    connected(sdk, KEY, async (client) => {
      const { tools } = await client.listTools();
      assert(tools.some((one) => one.name === "translate" && one.outputSchema));
      const found = await call(client, "translate", { text: TEXT, source: "en", target: "ja" });
      const [first] = found.structuredContent.translations;
      assert.deepStrictEqual([first.text, first.warnings], [JA, []]);
      assert(first.confidence > 0 && first.confidence <= 1);
      assert.deepStrictEqual(JSON.parse(found.content[0].text), found.structuredContent);
    }));
  cell("batch", `${title}: a list of texts, in order`, () =>
    connected(sdk, KEY, async (client) => {
      const found = await call(client, "translate", { text: TEXTS, source: "en", target: "ja" });
      assert.deepStrictEqual(found.structuredContent.translations.map((one) => one.text), EXPECTED.ja);
    }));
  cell("detection", `${title}: detect_language`, () =>
    connected(sdk, KEY, async (client) => {
      const found = await call(client, "detect_language", { text: TEXT });
      assert.strictEqual(found.structuredContent.detections[0].language, "en");
    }));
  cell("languages", `${title}: list_languages`, () =>
    connected(sdk, KEY, async (client) => {
      const found = await call(client, "list_languages", {});
      assert(found.structuredContent.languages.some((one) => one.code === "ja"));
    }));
  cell("documents", `${title}: translate_document, a docx, with progress`, () =>
    connected(sdk, KEY, async (client) => {
      const given = {
        file_name: "a.docx",
        content_base64: fs.readFileSync(`${FILES}/a.docx`).toString("base64"),
        source: "en",
        target: "ja",
      };
      const found = await call(client, "translate_document", given, { onprogress: () => undefined });
      const { blob } = found.content.find((one) => one.type === "resource").resource;
      fs.writeFileSync(`${FILES}/mcp.docx`, Buffer.from(blob, "base64"));
      translatedFile(`${FILES}/mcp.docx`);
    }));
  cell("errors", `${title}: an unknown language is a result with isError`, () =>
    connected(sdk, KEY, async (client) => {
      const found = await call(client, "translate", { text: TEXT, target: "xx" });
      assert.strictEqual(found.isError, true);
      assert.strictEqual(JSON.parse(found.content[0].text).error.code, "unsupported_language");
    }));
}

main((key) =>
  connected(SDKS["version 2"], key, async (client) => {
    const found = await call(client, "translate", { text: TEXT, source: "en", target: "ja" });
    if (found.isError) throw new Error(found.content[0].text);
    return found.content[0].text;
  }));
