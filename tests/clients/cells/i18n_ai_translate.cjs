// i18n-ai-translate, the command line.
const { URL, KEY, EXPECTED, TEXTS, assert, cell, main } = require("./cells.cjs");
const { spawnSync } = require("node:child_process");
const fs = require("node:fs");
const os = require("node:os");
const path = require("node:path");

const folder = fs.mkdtempSync(path.join(os.tmpdir(), "i18n-"));
const source = Object.fromEntries(TEXTS.map((text, place) => [`key${place}`, text]));

function translated(key, ...options) {
  fs.rmSync(path.join(folder, "jsons"), { recursive: true, force: true });
  fs.mkdirSync(path.join(folder, "jsons"));
  fs.writeFileSync(path.join(folder, "jsons/en.json"), JSON.stringify(source));
  const done = spawnSync(
    path.join(__dirname, "node_modules/.bin/i18n-ai-translate"),
    ["translate", "-i", "en.json", "-o", "ja", "-e", "chatgpt", "-m", "dragoman", "-k", key, ...options],
    { cwd: folder, encoding: "utf-8", env: { ...process.env, OPENAI_BASE_URL: `${URL}/v1`, OPENAI_API_KEY: key }, timeout: 120_000 },
  );
  const made = path.join(folder, "jsons/ja.json");
  if (done.status !== 0 || !fs.existsSync(made)) throw new Error((done.stdout + done.stderr).trim().slice(-300));
  return JSON.parse(fs.readFileSync(made, "utf-8"));
}

cell("documents", "a JSON file, by JSON and by CSV, without the verification by the model", async () => {
  const expected = Object.fromEntries(EXPECTED.ja.map((text, place) => [`key${place}`, text]));
  for (const mode of ["json", "csv"]) {
    assert.deepStrictEqual(translated(KEY, "--prompt-mode", mode, "--skip-translation-verification"), expected);
  }
});

main(async (key) => JSON.stringify(translated(key, "--skip-translation-verification")));
