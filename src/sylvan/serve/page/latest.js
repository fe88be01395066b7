// Of several questions only the latest counts: a new one ends those before it, whether they wait or are on their way.

export class Latest {
  #running = null;
  #busy;

  /** `busy` learns when a question starts and when none is left. */
  constructor(busy = () => {}) {
    this.#busy = busy;
  }

  /** Runs `task(signal)` after `delay` milliseconds, unless something newer comes first. */
  start(delay, task, failed = () => {}) {
    this.cancel();
    const running = new AbortController();
    this.#running = running;
    setTimeout(async () => {
      if (running.signal.aborted) return;
      this.#busy(true);
      try {
        await task(running.signal);
      } catch (problem) {
        if (!running.signal.aborted) failed(problem);
      } finally {
        if (this.#running === running) {
          this.#running = null;
          this.#busy(false);
        }
      }
    }, delay);
  }

  cancel() {
    if (!this.#running) return;
    this.#running.abort();
    this.#running = null;
    this.#busy(false);
  }
}
