// Something that the server gives: the last value stays while a newer one is fetched; busy and away are tried again.
import { asProblem, Latest, type Problem } from "../../lib/api";

const TRY_AGAIN = 3000;

export class Loaded<T> {
  value: T | null = $state.raw(null);
  problem: Problem | null = $state.raw(null);
  loading = $state(false);
  private readonly latest = new Latest();
  private timer: ReturnType<typeof setTimeout> | undefined;
  private work: ((signal: AbortSignal) => Promise<T>) | null = null;

  /** Fetches now, or after a while in which a newer call takes its position. */
  load(work: (signal: AbortSignal) => Promise<T>, after = 0): void {
    this.work = work;
    this.loading = true;
    this.latest.stop();
    clearTimeout(this.timer);
    if (after > 0) this.timer = setTimeout(() => this.again(), after);
    else this.again();
  }

  again(): void {
    clearTimeout(this.timer);
    if (this.work) void this.fetch(this.work);
  }

  /** Lets go of what there is, as when another thing is to be loaded. */
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
      if (this.problem.away || this.problem.status === 503) this.timer = setTimeout(() => this.again(), TRY_AGAIN);
    }
    this.loading = false;
  }
}
