// Vercel's AI SDK with @ai-sdk/openai-compatible, which sends chat completions.
const { URL, KEY } = require("./cells.cjs");

require("./ai_sdk.cjs")({
  provide: async (apiKey = KEY) =>
    (await import("@ai-sdk/openai-compatible")).createOpenAICompatible({
      name: "dragoman", baseURL: `${URL}/v1`, apiKey, supportsStructuredOutputs: true,
    }),
});
