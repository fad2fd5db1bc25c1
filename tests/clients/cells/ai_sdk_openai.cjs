// Vercel's AI SDK with @ai-sdk/openai, which sends responses.
const { URL, KEY } = require("./cells.cjs");

require("./ai_sdk.cjs")({
  provide: async (apiKey = KEY) => (await import("@ai-sdk/openai")).createOpenAI({ baseURL: `${URL}/v1`, apiKey }),
});
