// The visible window of a heat map: zoomed about a cell, limited to the map, moved to a cell.
import type { Cell } from "./heat";
import type { Window } from "./weights";

const MIN_CELLS = 4;

export function whole(rows: number, columns: number): Window {
  return { top: 0, left: 0, rows, columns };
}

/** Zoomed by a factor about a cell that stays where it is; 0 shows all. */
export function zoomed(view: Window, factor: number, centre: Cell, all: Window): Window {
  if (factor === 0) return all;
  const rows = clamp(view.rows / factor, Math.min(MIN_CELLS, all.rows), all.rows);
  const columns = clamp(view.columns / factor, Math.min(MIN_CELLS, all.columns), all.columns);
  const down = (centre.row + 0.5 - view.top) / view.rows;
  const across = (centre.column + 0.5 - view.left) / view.columns;
  const next = {
    rows,
    columns,
    top: centre.row + 0.5 - down * rows,
    left: centre.column + 0.5 - across * columns,
  };
  return shifted(next, null, all);
}

/** The window moved inside the whole and, if a cell is given, to show that cell. */
export function shifted(view: Window, cell: Cell | null, all: Window): Window {
  let { top, left } = view;
  if (cell) {
    top = clamp(top, cell.row + 1 - view.rows, cell.row);
    left = clamp(left, cell.column + 1 - view.columns, cell.column);
  }
  top = clamp(top, 0, all.rows - view.rows);
  left = clamp(left, 0, all.columns - view.columns);
  return top === view.top && left === view.left ? view : { ...view, top, left };
}

export function within(cell: Cell, rows: number, columns: number): Cell {
  return {
    row: clamp(cell.row, 0, Math.max(0, rows - 1)),
    column: clamp(cell.column, 0, Math.max(0, columns - 1)),
  };
}

function clamp(value: number, low: number, high: number): number {
  return Math.min(Math.max(value, low), Math.max(low, high));
}
