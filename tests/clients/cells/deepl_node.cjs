// deepl-node, DeepL's client for Node.
const fs = require("node:fs");
const { URL, KEY, TEXT, TEXTS, JA, EXPECTED, FILES, assert, cell, japanese, sameTags, translatedFile, main } =
  require("./cells.cjs");
const deepl = require("deepl-node");

const client = new deepl.DeepLClient(KEY, { serverUrl: URL });
const STATION = new deepl.GlossaryEntries({ entries: { "train station": "ターミナル" } });
const name = (kind) => `${kind} ${crypto.randomUUID()}`;

cell("text", "translateText, the source detected", async () => {
  const found = await client.translateText(TEXT, null, "ja");
  assert.deepStrictEqual([found.text, found.detectedSourceLang, found.billedCharacters], [JA, "en", TEXT.length]);
});
cell("text", "formality, context, splitSentences, modelType", async () => {
  const found = await client.translateText(TEXT, "en", "ja", {
    formality: "prefer_less",
    context: "A traveller asks.",
    splitSentences: "nonewlines",
    preserveFormatting: true,
    modelType: "prefer_quality_optimized",
  });
  japanese(found.text);
});
cell("batch", "an array of texts, in order", async () => {
  const found = await client.translateText(TEXTS, "en", "ja");
  assert.deepStrictEqual(found.map((one) => one.text), EXPECTED.ja);
});
cell("tags", "tagHandling: xml, ignoreTags", async () => {
  const source = "<doc><p>Where is the <b>train station</b>?</p><keep>Not this.</keep></doc>";
  const found = await client.translateText(source, "en", "ja", {
    tagHandling: "xml", ignoreTags: ["keep"], splittingTags: ["p"], outlineDetection: false,
  });
  sameTags(found.text, source);
  assert(found.text.includes("<keep>Not this.</keep>"), found.text);
});
cell("tags", "tagHandling: html", async () => {
  const source = '<p class="a">Where is the <b>train station</b>?</p>';
  const found = await client.translateText(source, "en", "ja", { tagHandling: "html" });
  sameTags(found.text, source);
  japanese(found.text);
});
cell("languages", "source and target languages, pairs of glossaries", async () => {
  assert((await client.getSourceLanguages()).some((one) => one.code === "en"));
  assert((await client.getTargetLanguages()).some((one) => one.code === "ja"));
  const pairs = await client.getGlossaryLanguagePairs();
  assert(pairs.some((one) => one.sourceLang === "en" && one.targetLang === "ja"));
});
cell("usage", "getUsage counts what was translated", async () => {
  const before = (await client.getUsage()).character.count;
  await client.translateText(TEXT, "en", "ja");
  assert.strictEqual((await client.getUsage()).character.count, before + TEXT.length);
});
cell("glossaries", "version 2: create, get, list, entries, use, CSV, delete", async () => {
  const made = await client.createGlossary(name("node v2"), "en", "ja", STATION);
  try {
    assert.strictEqual(made.entryCount, 1);
    assert.strictEqual((await client.getGlossary(made.glossaryId)).name, made.name);
    assert((await client.listGlossaries()).some((one) => one.glossaryId === made.glossaryId));
    assert.deepStrictEqual((await client.getGlossaryEntries(made)).entries(), STATION.entries());
    const found = await client.translateText(TEXT, "en", "ja", { glossary: made });
    assert(found.text.includes("ターミナル"), found.text);
  } finally {
    await client.deleteGlossary(made);
  }
  const csv = await client.createGlossaryWithCsv(name("node csv"), "en", "ja", Buffer.from('hello,"こんにちは"\n'));
  assert.deepStrictEqual((await client.getGlossaryEntries(csv)).entries(), { hello: "こんにちは" });
  await client.deleteGlossary(csv);
  await assert.rejects(client.getGlossary(csv.glossaryId), deepl.GlossaryNotFoundError);
});
cell("glossaries", "version 3: two dictionaries, use, rename, replace, delete", async () => {
  const made = await client.createMultilingualGlossary(name("node v3"), [
    { sourceLangCode: "en", targetLangCode: "ja", entries: STATION },
    { sourceLangCode: "en", targetLangCode: "ko", entries: new deepl.GlossaryEntries({ entries: { server: "서버" } }) },
  ]);
  try {
    assert.strictEqual(made.dictionaries.length, 2);
    const found = await client.translateText(TEXT, "en", "ja", { glossary: made });
    assert(found.text.includes("ターミナル"), found.text);
    await client.updateMultilingualGlossaryName(made, `${made.name} renamed`);
    const queue = new deepl.GlossaryEntries({ entries: { queue: "列" } });
    await client.replaceMultilingualGlossaryDictionary(made, {
      sourceLangCode: "en", targetLangCode: "ja", entries: queue,
    });
    const entries = await client.getMultilingualGlossaryDictionaryEntries(made, "en", "ja");
    assert.deepStrictEqual(entries.entries.entries(), { queue: "列" });
    await client.deleteMultilingualGlossaryDictionary(made, "en", "ko");
    const left = await client.getMultilingualGlossary(made.glossaryId);
    assert.deepStrictEqual([left.name, left.dictionaries.length], [`${made.name} renamed`, 1]);
  } finally {
    await client.deleteMultilingualGlossary(made);
  }
});
const TMX = `<tmx version="1.4"><header srclang="en"/><body>
<tu><tuv xml:lang="en"><seg>${TEXT}</seg></tuv><tuv xml:lang="ja"><seg>駅はどこ？</seg></tuv></tu></body></tmx>`;
cell("glossaries", "translation memories: import, list, get, segments, use with a threshold, export, delete", async () => {
  const [given, exported] = [`${FILES}/node.tmx`, `${FILES}/node exported.tmx`];
  fs.writeFileSync(given, TMX);
  const job = await client.importTranslationMemoryFromFilepath(given, { displayName: name("memory") });
  const made = await client.getTranslationMemory(job.results[0].translationMemoryId);
  try {
    assert.deepStrictEqual([made.sourceLanguage, made.targetLanguages, made.segmentCount], ["en", ["ja"], 1]);
    const listed = await client.listTranslationMemories(0, 25);
    assert(listed.some((one) => one.translationMemoryId === made.translationMemoryId));
    const page = await client.listTranslationMemorySegments(made, { filterText: "train station", pageSize: 10 });
    assert.deepStrictEqual([page.segments[0].targets[0].targetText, page.nextPageCursor], ["駅はどこ？", undefined]);
    const options = { translationMemory: made, translationMemoryThreshold: 80 };
    assert.strictEqual((await client.translateText(TEXT, "en", "ja", options)).text, "駅はどこ？");
    await client.exportTranslationMemoryToFilepath(made, exported);
    assert(fs.readFileSync(exported, "utf8").includes("駅はどこ？"));
  } finally {
    await client.deleteTranslationMemory(made);
  }
  await assert.rejects(client.getTranslationMemory(made), /not found/i);
});
for (const kind of ["docx", "pptx", "srt"]) {
  cell("documents", `translateDocument from a path: ${kind}`, async () => {
    const result = `${FILES}/result.${kind}`;
    const status = await client.translateDocument(`${FILES}/a.${kind}`, result, "en", "ja");
    assert.deepStrictEqual([status.status, status.billedCharacters], ["done", TEXTS.join("").length]);
    translatedFile(result);
  });
}
cell("documents", "translateDocument from a buffer and a stream, with documentMinification", async () => {
  const result = `${FILES}/buffer.srt`;
  await client.translateDocument(fs.readFileSync(`${FILES}/a.srt`), result, "en", "ja", { filename: "a.srt" });
  translatedFile(result);
  const minified = `${FILES}/minified.docx`;
  await client.translateDocument(`${FILES}/a.docx`, minified, "en", "ja", { enableDocumentMinification: true });
  translatedFile(minified);
  const stream = fs.createReadStream(`${FILES}/a.srt`);
  const streamed = fs.createWriteStream(`${FILES}/stream.srt`);
  await client.translateDocument(stream, streamed, "en", "ja", { filename: "a.srt" });
  translatedFile(`${FILES}/stream.srt`);
});
cell("documents", "equal languages, an unknown type: DeepLError", async () => {
  await assert.rejects(
    client.translateDocument(Buffer.from("text"), `${FILES}/x.txt`, "en", "en-GB", { filename: "a.txt" }),
    (error) => error instanceof deepl.DocumentTranslationError && error.message.includes("are equal."),
  );
  await assert.rejects(
    client.translateDocument(Buffer.from("text"), `${FILES}/x.xyz`, "en", "ja", { filename: "a.xyz" }),
    (error) => error.message.includes("Invalid file"),
  );
});
cell("errors", "an unknown language: DeepLError, without retries", async () => {
  await assert.rejects(client.translateText(TEXT, null, "xx"), deepl.DeepLError);
});

main(async (key) => (await new deepl.DeepLClient(key, { serverUrl: URL }).translateText(TEXT, "en", "ja")).text);
