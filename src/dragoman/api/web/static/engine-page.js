/** Puts the page of the engine together: its live view, and the burst of texts. */

import { Burst } from "./burst.js";
import { byId, say } from "./dom.js";
import { Engine } from "./engine.js";
import { Feed } from "./feed.js";
import { localise, t } from "./i18n.js";
import { onKey } from "./key.js";
import { browserStorage } from "./languages.js";
import { Picker } from "./picker.js";
import * as server from "./server.js";
import { TEXTS } from "./texts.js";

localise();
document.title = `${t("engine.title")} – dragoman`;
say(byId("send"), t("burst.send", { count: TEXTS }));

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
  const picker = new Picker(byId("target-language"));
  picker.fill([{ label: "", choices: languages.choices() }]);
  picker.value = languages.firstTarget(browserStorage());
  burst = new Burst(languages, picker, topics, (busy) => feed.hurry(busy));
}

function start() {
  feed.ask();
  if (!burst) open().catch((error) => engine.lost(error));
}

onKey(start);
start();
