// A value from the server: the last one stays while a newer one is fetched; busy and unreachable servers are retried.
import { asProblem, Latest, type Problem } from "../../lib/api";

const RETRY_DELAY = 3000;

export class Resource<T> {
  value: T | null = $state.raw(null);
  problem: Problem | null = $state.raw(null);
  loading = $state(false);
  private readonly latest = new Latest();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private work: ((signal: AbortSignal) => Promise<T>) | null = null;

  /** Fetches now, or after a delay, unless a newer call replaces this one. */
  load(work: (signal: AbortSignal) => Promise<T>, after = 0): void {
    this.work = work;
    this.loading = true;
    this.latest.stop();
    clearTimeout(this.timer);
    if (after > 0) this.timer = setTimeout(() => this.retry(), after);
    else this.retry();
  }

  retry(): void {
    clearTimeout(this.timer);
    if (this.work) void this.fetch(this.work);
  }

  /** Drops the value and cancels the request. */
  clear(): void {
    this.stop();
    this.work = null;
    this.value = null;
    this.problem = null;
    this.loading = false;
  }

  stop(): void {
    clearTimeout(this.timer);
    this.latest.stop();
  }

  private async fetch(work: (signal: AbortSignal) => Promise<T>): Promise<void> {
    this.loading = true;
    try {
      const value = await this.latest.run(work);
      if (value === undefined) return;
      this.value = value;
      this.problem = null;
    } catch (error) {
      this.problem = asProblem(error);
      if (this.problem.unreachable || this.problem.status === 503) this.timer = setTimeout(() => this.retry(), RETRY_DELAY);
    }
    this.loading = false;
  }
}
