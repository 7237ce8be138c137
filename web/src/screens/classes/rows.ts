// The weight of a word in one row of attention, or in the mean of all.
import type { Span } from "../../lib/weights";

/** The row that the selection names, or null for the mean of all. */
export const chosenRow = (query: number | null, count: number): number | null =>
  query !== null && query < count ? query : null;

/** The sum over the tokens of a word; of the mean, where no row is chosen. */
export function weightOf(rows: readonly Float32Array[], row: number | null, { first, last }: Span): number {
  const chosen = row === null ? rows : rows.slice(row, row + 1);
  let sum = 0;
  for (const values of chosen) for (let at = first; at <= last; at += 1) sum += values[at] ?? 0;
  return chosen.length > 0 ? sum / chosen.length : 0;
}
