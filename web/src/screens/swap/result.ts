// The result of a swap with its request, and the rows of its CSV file.
import type { DisplayToken } from "../../lib/labels";
import type { Inspection, Site, SwapResult, SwapRequest } from "../../lib/types";
import { at, complete, type Weights } from "../../lib/weights";

export interface Result {
  inspection: Inspection;
  site: Site;
  head: number;
  request: SwapRequest;
  swapped: SwapResult;
  before: Weights;
  after: Weights;
}

export interface Pictures {
  rows: DisplayToken[];
  columns: DisplayToken[];
  before: Weights;
  after: Weights;
  difference: Weights;
}

export async function csvRows({ rows, columns, ...maps }: Pictures): Promise<(string | number | null)[][]> {
  const [before, after, difference] = await Promise.all([maps.before, maps.after, maps.difference].map(complete));
  const cells = rows.flatMap((row, i) =>
    columns.map((column, j) => [
      row.first,
      row.text,
      column.first,
      column.text,
      ...[before, after, difference].map((map) => (map ? at(map, i, j) : null)),
    ]),
  );
  return [["query_index", "query", "key_index", "key", "before", "after", "difference"], ...cells];
}
