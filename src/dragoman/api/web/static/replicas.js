/** Each of several replicas in a table; hidden where there is one. What the rest of the page shows is all of them together. */

import { byId, el, say } from "./dom.js";
import { count, duration, rate, share } from "./format.js";
import { has, t } from "./i18n.js";

/** A state of a server in words. */
export const stateName = (state) => (has(`engine.${state}`) ? t(`engine.${state}`) : state);

const COLUMNS = [
  ["state", (s) => stateName(s.state)],
  ["running", (s) => count(s.engine.running)],
  ["waiting", (s) => count(s.engine.waiting)],
  ["kv_cache", (s) => share(s.engine.kv_cache_usage)],
  ["texts", (s) => rate(s.last_minute.texts_per_s)],
  ["p95", (s) => duration(s.last_minute.e2e_s?.p95)],
];

export class Replicas {
  constructor() {
    this.box = byId("replicas");
    this.names = null;
    this.rows = [];
  }

  /** @param {object[]} replicas each one's own statistics */
  show(replicas) {
    this.box.hidden = replicas.length < 2;
    if (this.box.hidden) return;
    const names = JSON.stringify(replicas.map(({ replica }) => replica));
    if (names !== this.names) this.build(replicas);
    this.names = names;
    replicas.forEach((one, row) => {
      const silent = one.state === "unreachable";
      this.rows[row].box.dataset.state = one.state;
      COLUMNS.forEach(([, of], at) => say(this.rows[row].cells[at], silent && at ? "–" : of(one)));
    });
  }

  build(replicas) {
    const head = ["replica", ...COLUMNS.map(([name]) => name)].map((name) => (name === "p95" ? name : t(`engine.${name}`))).map((name) => el("th", { scope: "col" }, name));
    this.rows = replicas.map(({ replica }) => {
      const cells = COLUMNS.map(() => el("td", { class: "figure" }));
      return { cells, box: el("tr", {}, el("th", { scope: "row" }, replica), ...cells) };
    });
    byId("replicas-table").replaceChildren(
      el("thead", {}, el("tr", {}, ...head)),
      el("tbody", {}, ...this.rows.map(({ box }) => box)),
    );
  }
}
