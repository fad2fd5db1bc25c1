/** Asks the server the same again and again while somebody looks. Knows nothing of what is in an answer. */

const CALM_MS = 1000;
const QUICK_MS = 250; // while a page has work in the engine: it may be over in a second

export class Feed {
  /**
   * @param {(signal: AbortSignal) => Promise<object>} question
   * @param {(answer: object) => boolean | void} onAnswer false: enough, until `ask` is called again
   * @param {(error: Error) => void} onError
   */
  constructor(question, onAnswer, onError) {
    this.question = question;
    this.onAnswer = onAnswer;
    this.onError = onError;
    this.quick = false;
    this.timer = 0;
    this.asking = null;
    this.wanted = false;
    document.addEventListener("visibilitychange", () => (document.hidden ? this.pause() : this.wanted && this.ask()));
  }

  /** Look closer, or calmly again. */
  hurry(quick) {
    this.quick = quick;
    if (quick && !this.asking && !document.hidden) this.ask();
  }

  stop() {
    this.wanted = false;
    this.pause();
  }

  pause() {
    clearTimeout(this.timer);
    this.asking?.abort();
    this.asking = null;
  }

  /** Ask now, and then again and again. */
  async ask() {
    this.pause();
    this.wanted = true;
    if (document.hidden) return;
    const asking = (this.asking = new AbortController());
    try {
      const answer = await this.question(asking.signal);
      if (asking.signal.aborted) return;
      this.wanted = this.onAnswer(answer) !== false;
    } catch (error) {
      if (asking.signal.aborted) return;
      this.onError(error);
      if (error.forbidden) this.wanted = false; // asking again would not change it
    }
    if (asking.signal.aborted) return;
    this.asking = null;
    if (!this.wanted) return;
    this.timer = setTimeout(() => this.ask(), this.quick ? QUICK_MS : CALM_MS);
  }
}
