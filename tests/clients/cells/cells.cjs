// What the clients' scripts for Node share, as cells.py for Python.
const assert = require("node:assert");
const { spawnSync } = require("node:child_process");

const env = process.env;
const TEXTS = JSON.parse(env.CLIENT_TEXTS);
const EXPECTED = JSON.parse(env.CLIENT_EXPECTED);
const cells = [];

function emit(value) {
  console.log("CELL " + JSON.stringify(value));
}

function japanese(text) {
  const plain = text.replace(/<[^>]*>/g, "");
  assert(/[\u3040-\u30ff\u4e00-\u9fff]/.test(plain) && !/[A-Za-z]{4}/.test(plain), `not Japanese: ${text}`);
}

function sameTags(found, source) {
  assert.deepStrictEqual(found.match(/<[^>]*>/g), source.match(/<[^>]*>/g));
}

// The file has the texts' translations, as another reader finds them.
function translatedFile(path) {
  const [program, ...line] = JSON.parse(env.CLIENT_CHECK);
  const done = spawnSync(program, [...line, path], { encoding: "utf-8" });
  assert.strictEqual(done.status, 0, `${path}: ${String(done.stderr).slice(-200)}`);
}

async function main(refused) {
  for (const [column, title, run] of cells) {
    const began = performance.now();
    let reason = null;
    try {
      await run();
    } catch (error) {
      reason = `${error.constructor.name}: ${String(error.message).slice(0, 300)}`;
    }
    emit({ column, title, reason, took_s: Math.round((performance.now() - began) / 10) / 100 });
  }
  for (const [name, key] of Object.entries(JSON.parse(env.CLIENT_REFUSED_KEYS))) {
    try {
      const found = await refused(key);
      emit({ refused: name, raises: null, message: String(found).slice(0, 200) });
    } catch (error) {
      emit({ refused: name, raises: error.constructor.name, message: String(error.message).slice(0, 200) });
    }
  }
}

module.exports = {
  URL: env.CLIENT_URL,
  KEY: env.CLIENT_KEY,
  TEXTS,
  EXPECTED,
  TEXT: TEXTS[0],
  JA: EXPECTED.ja[0],
  assert,
  cell: (column, title, run) => cells.push([column, title, run]),
  japanese,
  sameTags,
  FILES: env.CLIENT_FILES,
  translatedFile,
  main,
};
