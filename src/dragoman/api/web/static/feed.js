/** Asks for `GET /v1/stats` again and again while somebody looks. Knows nothing of what is in it. */

import { stats } from "./server.js";

const CALM_MS = 1000;
const QUICK_MS = 250; // while this page has work in the engine: a burst may be over in a second

export class Feed {
  /**
   * @param {(stats: object) => void} onStats
   * @param {(error: Error) => void} onError
   */
  constructor(onStats, onError) {
    this.onStats = onStats;
    this.onError = onError;
    this.quick = false;
    this.timer = 0;
    this.asking = null;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.stop() : this.ask()));
    if (!document.hidden) this.ask();
  }

  /** Look closer, or calmly again. */
  hurry(quick) {
    this.quick = quick;
    if (quick && !this.asking && !document.hidden) this.ask();
  }

  stop() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
  }

  async ask() {
    this.stop();
    const asking = (this.asking = new AbortController());
    try {
      this.onStats(await stats(asking.signal));
    } catch (error) {
      if (asking.signal.aborted) return;
      this.onError(error);
      if (error.forbidden) return; // asking again would not change it
    }
    if (asking.signal.aborted) return;
    this.asking = null;
    this.timer = setTimeout(() => this.ask(), this.quick ? QUICK_MS : CALM_MS);
  }
}
