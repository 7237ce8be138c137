// The lines of one run: all at first, then only what came since; a file that was begun anew is read from its start.
import { asProblem, get, isAbort, type Problem } from "../../lib/api";
import type { Line, Lines } from "../../lib/types";

/** The server cuts long answers; one with fewer lines than this is whole. */
const MAY_BE_CUT = 1000;

export class Feed {
  lines: Line[] = $state.raw([]);
  problem: Problem | null = $state.raw(null);
  /** Whether the server has answered once. */
  read = $state(false);
  private next = 0;
  private file: string | null = null;
  private reading: Promise<void> | null = null;
  private readonly controller = new AbortController();

  constructor(readonly name: string) {}

  /** One reading at a time: who comes while one is under way waits for that one. */
  readOn(): Promise<void> {
    this.reading ??= this.fetch().finally(() => (this.reading = null));
    return this.reading;
  }

  stop(): void {
    this.controller.abort();
  }

  private async fetch(): Promise<void> {
    try {
      while ((await this.take()) >= MAY_BE_CUT);
      this.problem = null;
      this.read = true;
    } catch (error) {
      if (!isAbort(error)) this.problem = asProblem(error);
    }
  }

  /** Takes what came since, and says how many lines that were. */
  private async take(): Promise<number> {
    let answer = await this.ask(this.next);
    const isAnew = this.file !== null && answer.file !== this.file;
    if (isAnew) answer = await this.ask(0);
    if (isAnew) this.lines = answer.lines;
    else if (answer.lines.length > 0) this.lines = [...this.lines, ...answer.lines];
    this.next = answer.next;
    this.file = answer.file;
    return answer.lines.length;
  }

  private ask(after: number): Promise<Lines> {
    return get<Lines>("/api/runs/lines", { name: this.name, after }, this.controller.signal);
  }
}
