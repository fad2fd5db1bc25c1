/** Puts the page of the engine together: its live view, and the burst of texts. */

import { Burst } from "./burst.js";
import { byId } from "./dom.js";
import { Engine } from "./engine.js";
import { Feed } from "./feed.js";
import { onKey } from "./key.js";
import { browserStorage } from "./languages.js";
import * as server from "./server.js";

const engine = new Engine();
let burst = null;

const feed = new Feed(
  server.stats,
  (stats) => {
    engine.show(stats);
    burst?.watch(stats);
  },
  (error) => engine.lost(error),
);

async function open() {
  const [languages, topics] = await Promise.all([server.languages(), server.sentences()]);
  const menu = byId("target-language");
  menu.append(...languages.options());
  menu.value = languages.firstTarget(browserStorage());
  burst = new Burst(languages, menu, topics, (busy) => feed.hurry(busy));
}

function start() {
  feed.ask();
  if (!burst) open().catch((error) => engine.lost(error));
}

onKey(start);
start();
