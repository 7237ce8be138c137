// The metrics of one run: all lines at first, then only new ones; a restarted run is read from its start.
import { asProblem, get, isAbort, type Problem } from "../../lib/api";
import type { MetricsLine, MetricsLines } from "../../lib/types";

/** The server limits the lines of a response; one with at least this many may have a successor. */
const FULL_PAGE = 1000;

export class LinesLoader {
  lines: MetricsLine[] = $state.raw([]);
  problem: Problem | null = $state.raw(null);
  /** True after the first response. */
  hasLoaded = $state(false);
  private next = 0;
  private file: string | null = null;
  private pending: Promise<void> | null = null;
  private readonly controller = new AbortController();

  constructor(readonly name: string) {}

  /** Loads new lines; a call during a load waits for that load. */
  loadNew(): Promise<void> {
    this.pending ??= this.fetch().finally(() => (this.pending = null));
    return this.pending;
  }

  stop(): void {
    this.controller.abort();
  }

  private async fetch(): Promise<void> {
    try {
      while ((await this.loadPage()) >= FULL_PAGE);
      this.problem = null;
      this.hasLoaded = true;
    } catch (error) {
      if (!isAbort(error)) this.problem = asProblem(error);
    }
  }

  /** Loads the next page and returns its number of lines. */
  private async loadPage(): Promise<number> {
    let page = await this.request(this.next);
    const isRestarted = this.file !== null && page.file !== this.file;
    if (isRestarted) page = await this.request(0);
    if (isRestarted) this.lines = page.lines;
    else if (page.lines.length > 0) this.lines = [...this.lines, ...page.lines];
    this.next = page.next;
    this.file = page.file;
    return page.lines.length;
  }

  private request(after: number): Promise<MetricsLines> {
    return get<MetricsLines>("/api/runs/lines", { name: this.name, after }, this.controller.signal);
  }
}
