/** Recent samples of `GET /v1/stats`, each a flat record of what the page shows. Knows nothing of drawing. */

const WINDOW_S = 300;
const SHORTEST_WINDOW_S = 60; // a page just opened has little to show, and shows that large
const RATE_OVER_S = 1; // a rate needs a stretch: counters move in steps
const LONGEST_GAP_S = 4; // two samples further apart are not joined: nothing was sampled in between

/** Slots that fill the engines: how many sequences they run at the same time. */
export function slotsOf({ settings, replicas }) {
  const answered = replicas.filter(({ state }) => state !== "unreachable").length;
  return settings.engine.max_num_seqs * (replicas.length ? answered : 1);
}

export class History {
  constructor() {
    this.samples = [];
  }

  get latest() {
    return this.samples.at(-1);
  }

  /** @param {object} stats what the server said @param {number} atS when, on the page's clock */
  add(stats, atS) {
    const { e2e_s: e2e } = stats.last_minute;
    this.samples.push({
      atS,
      running: stats.engine.running,
      waiting: stats.engine.waiting,
      tokens: stats.engine.completion_tokens,
      uptimeS: stats.uptime_s,
      tokensPerS: this.tokensPerS(stats),
      p50: e2e.p50 ?? null,
      p95: e2e.p95 ?? null,
    });
    const first = this.samples.findIndex((sample) => sample.atS >= atS - WINDOW_S - LONGEST_GAP_S);
    this.samples.splice(0, first);
  }

  /** By the server's clock, over the last second or more; null across a restart and before there are two samples. */
  tokensPerS({ engine: { completion_tokens: tokens }, uptime_s: uptimeS }) {
    const since = this.samples.findLast((sample) => sample.uptimeS <= uptimeS - RATE_OVER_S);
    if (!since || since.tokens > tokens || this.latest.uptimeS > uptimeS) return null;
    return (tokens - since.tokens) / (uptimeS - since.uptimeS);
  }

  /** Stretches of samples in which `key` is known, without gaps. */
  stretches(key) {
    const found = [];
    let last = null;
    for (const sample of this.samples) {
      if (sample[key] === null) {
        last = null;
        continue;
      }
      if (last === null || sample.atS - last > LONGEST_GAP_S) found.push([]);
      found.at(-1).push(sample);
      last = sample.atS;
    }
    return found;
  }

  /** The stretch that there is to show, in seconds before now. */
  windowS(nowS) {
    const seenS = this.samples.length ? nowS - this.samples[0].atS : 0;
    return Math.min(Math.max(seenS, SHORTEST_WINDOW_S), WINDOW_S);
  }

  /** The sample nearest to a time. */
  near(atS) {
    const distance = (sample) => Math.abs(sample.atS - atS);
    return this.samples.reduce((best, sample) => (best && distance(best) <= distance(sample) ? best : sample), undefined);
  }

  /** One sample every so many seconds, newest first. */
  every(seconds) {
    const rows = [];
    for (const sample of [...this.samples].reverse()) {
      if (!rows.length || rows.at(-1).atS - sample.atS >= seconds) rows.push(sample);
    }
    return rows;
  }

  highest(keys) {
    return Math.max(0, ...this.samples.map((sample) => keys.reduce((sum, key) => sum + (sample[key] ?? 0), 0)));
  }
}
