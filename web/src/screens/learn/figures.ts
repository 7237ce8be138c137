// The figures of a lesson as the rows of one table, for saving.
import { localized } from "../../lib/language.svelte";
import type { LessonBlock } from "../../lib/types";

type Row = (string | number | null)[];

export function figureRows(blocks: readonly LessonBlock[]): Row[] {
  return blocks.flatMap((block): Row[] => {
    if (block.kind === "matrix") {
      const rows = block.values.map((values, row) => [localized(block.rows[row]!), ...values]);
      return [[localized(block.title)], ["", ...block.columns.map(localized)], ...rows];
    }
    if (block.kind === "chart") {
      const rows = block.series.flatMap((series) => series.x.map((x, k) => [localized(series.label), x, series.y[k]]));
      return [[localized(block.title)], ["", localized(block.x_label), localized(block.y_label)], ...rows];
    }
    return [];
  });
}
