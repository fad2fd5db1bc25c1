/** The engine live: state, readouts, slots, latencies and charts from `GET /v1/stats`. Knows nothing of translating. */

import { Chart } from "./chart.js";
import { byId, el, say } from "./dom.js";
import { ago, count, duration, durationMark, mark, rate, share } from "./format.js";
import { t } from "./i18n.js";
import { History, slotsOf } from "./history.js";
import { Replicas, stateName } from "./replicas.js";
import { Slots } from "./slots.js";

const TABLE_EVERY_S = 10;
const PERCENTILES = ["p50", "p95", "p99"];

const READOUTS = [
  ["running", (s) => count(s.engine.running), (s) => t("engine.running_note", { slots: count(slotsOf(s)), peak: count(s.engine.peak_running) })],
  ["waiting", (s) => count(s.engine.waiting), (s) => t("engine.waiting_note", { preemptions: count(s.engine.preemptions) })],
  ["in_flight", (s) => count(s.in_flight_characters), (s) => t("engine.in_flight_note", { limit: count(s.max_in_flight_characters), refused: count(s.refused) })],
  ["kv_cache", (s) => share(s.engine.kv_cache_usage), () => t("engine.kv_cache_note")],
  ["tokens", (s, now) => rate(now.tokensPerS), (s) => t("engine.tokens_note", { rate: rate(s.last_minute.output_tokens_per_s) })],
  ["texts", (s) => rate(s.last_minute.texts_per_s), failures],
];

const LATENCIES = [
  ["e2e_minute", (s) => s.last_minute.e2e_s],
  ["first_token", (s) => s.engine.ttft_s],
  ["between_tokens", (s) => s.engine.inter_token_latency_s],
];

const CHARTS = [
  {
    title: t("engine.sequences"),
    stacked: true,
    whole: true,
    format: count,
    mark,
    series: [
      { key: "running", name: t("engine.series_running"), className: "run" },
      { key: "waiting", name: t("engine.series_waiting"), className: "wait" },
    ],
  },
  { title: t("engine.tokens"), format: rate, mark, series: [{ key: "tokensPerS", name: t("engine.series_out"), className: "run" }] },
  {
    title: t("engine.e2e"),
    format: duration,
    mark: durationMark,
    series: [
      { key: "p50", name: "p50", className: "median" },
      { key: "p95", name: "p95", className: "tail" },
    ],
  },
];

function failures({ last_minute: { failures_per_s: failing }, in_flight: inFlight }) {
  return failing > 0 ? t("engine.texts_failing", { rate: rate(failing) }) : t("engine.texts_note", { in_flight: count(inFlight) });
}

export class Engine {
  constructor() {
    this.history = new History();
    this.slots = new Slots();
    this.replicas = new Replicas();
    this.cursorS = null;
    this.tableAtS = -Infinity;
    this.readouts = READOUTS.map(([name]) => readout(t(`engine.${name}`)));
    byId("readouts").append(...this.readouts.map(({ box }) => box));
    this.charts = CHARTS.map((spec) => new Chart(spec, (atS) => this.point(atS)));
    byId("charts").append(...this.charts.map(({ figure }) => figure));
    this.cells = latencyTable(byId("latency"));
    byId("history").addEventListener("toggle", () => this.tabulate(true));
    new ResizeObserver(() => this.draw()).observe(byId("charts"));
  }

  /** What the server said of itself. */
  show(stats) {
    this.history.add(stats, performance.now() / 1000);
    const { latest } = this.history;
    READOUTS.forEach(([, value, note], at) => {
      say(this.readouts[at].value, value(stats, latest));
      say(this.readouts[at].note, note(stats));
    });
    const { running, waiting, peak_running: peak } = stats.engine;
    this.slots.draw({ slots: slotsOf(stats), running, waiting, peak });
    LATENCIES.forEach(([, of], row) => PERCENTILES.forEach((p, at) => say(this.cells[row][at], duration(of(stats)[p]))));
    this.replicas.show(stats.replicas);
    this.identify(stats);
    this.draw();
  }

  /** Why nothing is heard of it. */
  lost(error) {
    this.state("lost", error.code === "no_connection" ? t("engine.no_connection") : (error.sentence ?? t("error.page")));
    this.draw();
  }

  identify({ state, model, pipeline, device, uptime_s: uptimeS, replicas }) {
    const words = state === "starting" ? t("engine.starting_since", { time: ago(uptimeS) }) : stateName(state);
    const serving = replicas.filter((one) => one.state === "serving").length;
    this.state(state, replicas.length > 1 ? t("engine.serving_replicas", { state: words, serving, total: replicas.length }) : words);
    say(byId("identity"), `${model} · ${pipeline} · ${device}`);
  }

  state(name, words) {
    byId("state").dataset.state = name;
    say(byId("state-text"), words);
  }

  point(atS) {
    this.cursorS = atS;
    this.draw();
  }

  draw() {
    const nowS = performance.now() / 1000;
    for (const chart of this.charts) chart.draw(this.history, nowS, this.cursorS);
    this.tabulate(false);
  }

  /** Rewritten rarely, so that it can be read; and only while it is open. */
  tabulate(atOnce) {
    const nowS = performance.now() / 1000;
    if (!byId("history").open || (!atOnce && nowS - this.tableAtS < TABLE_EVERY_S)) return;
    this.tableAtS = nowS;
    const head = [t("engine.ago"), t("engine.running"), t("engine.waiting"), t("engine.tokens"), "p50", "p95"].map((name) => el("th", { scope: "col" }, name));
    const rows = this.history.every(TABLE_EVERY_S).map((one) => {
      const values = [count(one.running), count(one.waiting), rate(one.tokensPerS), duration(one.p50), duration(one.p95)];
      return el("tr", {}, el("th", { scope: "row" }, ago(nowS - one.atS)), ...values.map((value) => el("td", {}, value)));
    });
    byId("history-table").replaceChildren(el("thead", {}, el("tr", {}, ...head)), el("tbody", {}, ...rows));
  }
}

function readout(name) {
  const [value, note] = [el("dd", { class: "figure" }, "–"), el("dd", { class: "note" })];
  return { value, note, box: el("div", {}, el("dt", {}, name), value, note) };
}

/** Fills the table and returns its cells, a row of percentiles for each latency. */
function latencyTable(table) {
  const cells = LATENCIES.map(() => PERCENTILES.map(() => el("td", { class: "figure" }, "–")));
  const head = PERCENTILES.map((name) => el("th", { scope: "col" }, name));
  const rows = LATENCIES.map(([name], at) => el("tr", {}, el("th", { scope: "row" }, t(`engine.${name}`)), ...cells[at]));
  table.append(el("thead", {}, el("tr", {}, el("td"), ...head)), el("tbody", {}, ...rows));
  return cells;
}
