// What a swap gave, with what it was asked for, and the rows of its CSV file.
import type { Shown } from "../../lib/labels";
import type { Inspection, Site, Swapped, SwapRequest } from "../../lib/types";
import { at, differenceAt, type Weights } from "../../lib/weights";

export interface Result {
  inspection: Inspection;
  site: Site;
  head: number;
  request: SwapRequest;
  swapped: Swapped;
  before: Weights;
  after: Weights;
}

export interface Pictures {
  rows: Shown[];
  columns: Shown[];
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
