// The exact weights of a large map: its rows, requested when they are to be printed.
import { SvelteMap } from "svelte/reactivity";
import { fromValues, type Weights } from "./weights";

/** Rows of one request, which the server limits. */
const MAX_ROWS = 64;
const MAX_STORED = 1024;

export class ExactRows {
  private readonly rows = new SvelteMap<number, Float32Array>();
  private readonly requested = new Set<number>();

  constructor(
    private readonly count: number,
    private readonly keys: number,
    private readonly fetch: (first: number, count: number) => Promise<Float32Array[]>,
  ) {}

  /** A row, once it is here. */
  get(row: number): Float32Array | undefined {
    return this.rows.get(row);
  }

  /** Requests the rows from `first` to `last` that are not here; a failed request is sent again when they are needed. */
  need = (first: number, last: number): void => {
    const missing: number[] = [];
    for (let row = Math.max(0, first); row <= Math.min(last, this.count - 1); row += 1) {
      if (!this.requested.has(row)) missing.push(row);
    }
    for (let from = 0; from < missing.length; ) {
      let count = 1;
      while (count < MAX_ROWS && missing[from + count] === missing[from]! + count) count += 1;
      void this.request(missing[from]!, count);
      from += count;
    }
  };

  /** All rows, which are not stored. */
  all = async (): Promise<Weights> => {
    const values = new Float32Array(this.count * this.keys);
    for (let first = 0; first < this.count; first += MAX_ROWS) {
      const rows = await this.fetch(first, Math.min(MAX_ROWS, this.count - first));
      rows.forEach((row, offset) => values.set(row, (first + offset) * this.keys));
    }
    return fromValues(values, this.count, this.keys);
  };

  private async request(first: number, count: number): Promise<void> {
    const rows = Array.from({ length: count }, (_, offset) => first + offset);
    if (this.requested.size + count > MAX_STORED) {
      this.requested.clear();
      this.rows.clear();
    }
    rows.forEach((row) => this.requested.add(row));
    try {
      const values = await this.fetch(first, count);
      values.forEach((value, offset) => this.rows.set(first + offset, value));
    } catch {
      rows.forEach((row) => this.requested.delete(row));
    }
  }
}
