/** Server-sent events from a response's body (WHATWG HTML, 9.2), `data` fields alone. Knows nothing of what they say. */

/**
 * The data of each event, as it comes.
 * @param {ReadableStream<Uint8Array>} body cancelled when the caller stops early
 * @returns {AsyncGenerator<string>}
 */
export async function* eventData(body) {
  const reader = body.pipeThrough(new TextDecoderStream()).getReader();
  let pending = "";
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      const blocks = (pending + value).split(/\r?\n\r?\n/);
      pending = blocks.pop();
      for (const block of blocks) {
        const data = dataOf(block);
        if (data !== null) yield data;
      }
    }
  } finally {
    reader.cancel().catch(() => {}); // it may be broken already: there is nothing left to free then
  }
}

function dataOf(block) {
  const lines = block.split(/\r?\n/).filter((line) => line.startsWith("data:"));
  return lines.length ? lines.map((line) => line.slice(5).replace(/^ /, "")).join("\n") : null;
}
