// The result of a swap with its request, and the rows of its CSV file.
import type { DisplayToken } from "../../lib/labels";
import type { Inspection, Site, SwapResult, SwapRequest } from "../../lib/types";
import { at, differenceAt, type Weights } from "../../lib/weights";

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

export function csvRows({ rows, columns, before, after, difference }: Pictures): (string | number)[][] {
  const cells = rows.flatMap((row, i) =>
    columns.map((column, j) => [
      row.first,
      row.text,
      column.first,
      column.text,
      at(before, i, j),
      at(after, i, j),
      differenceAt(difference, i, j),
    ]),
  );
  return [["query_index", "query", "key_index", "key", "before", "after", "difference"], ...cells];
}
