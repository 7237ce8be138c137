// A heat map: the layout of its cells, labels and numbers, and drawing on a canvas.
import { colourOf, inkOn } from "./colour";
import { fixed, withSign } from "./format";
import { isSpace, type DisplayToken } from "./labels";
import { at, poolWindow, type Weights, type Window } from "./weights";

export type Box = { left: number; top: number; width: number; height: number };
export type Layout = { width: number; height: number; plot: Box; labels: boolean };
export type Cell = { row: number; column: number };
export type Colours = { ink: string; muted: string; accent: string; paper: string };

export type Picture = {
  weights: Weights;
  rows: DisplayToken[];
  columns: DisplayToken[];
  layout: Layout;
  view: Window;
  table: Uint8Array;
  signed: boolean;
  colours: Colours;
  font: string;
  selected: Cell | null;
  hovered: Cell | null;
  /** The first row of a later step; from here on rows are dimmed. */
  until: number;
};

const MAX_CELL = { wide: 48, tall: 34 };
const MAX_COMPACT = 16;
const MAX_HEIGHT = 640;
const SMALL_CELL = 8;
const MAX_LABEL_WIDTH = 128;
const MIN_LABEL_DISTANCE = 12;

/** Cells as large as fit, square if possible; a label of a column that is wider than its cell is turned. */
export function layOut(
  available: number,
  rows: string[],
  columns: string[],
  compact: boolean,
  measure: Measure,
): Layout {
  const longest = (labels: string[]) => Math.min(MAX_LABEL_WIDTH, Math.max(0, ...sample(labels).map(measure)));
  const gutter = compact ? 0 : Math.ceil(longest(rows)) + 8;
  const plotWidth = Math.max(40, available - gutter - 1);
  const largest = compact ? { wide: MAX_COMPACT, tall: MAX_COMPACT } : MAX_CELL;
  const tallest = Math.min(largest.tall, MAX_HEIGHT / Math.max(1, rows.length));
  const maxWidth = plotWidth / Math.max(1, columns.length);
  const horizontal = longest(columns) + 12;
  const widest = Math.min(compact || horizontal > maxWidth ? largest.wide : Math.max(largest.wide, horizontal), maxWidth);
  const cellWidth = whole(tallest < SMALL_CELL ? Math.min(widest, tallest) : widest);
  const cellHeight = whole(Math.min(tallest, Math.max(cellWidth, tallest > 18 && !compact ? 18 : 0)));
  const turned = longest(columns.filter((column) => isTurned(measure(column), cellWidth)));
  const top = compact ? 0 : Math.max(24, Math.ceil(turned) + 8);
  const width = Math.min(plotWidth, cellWidth * columns.length);
  const plot = { left: gutter, top, width, height: cellHeight * rows.length };
  return { width: gutter + width + 1, height: top + plot.height + 1, plot, labels: !compact };
}

/** Whether the label of a column is set along it, because it is wider than the column. */
export function isTurned(labelWidth: number, cellWidth: number): boolean {
  return labelWidth > cellWidth - 2;
}

export type Measure = (text: string) => number;

/** The cell beneath a point, in the layout's own pixels. */
export function cellAt(layout: Layout, view: Window, x: number, y: number): Cell | null {
  const { left, top, width, height } = layout.plot;
  if (x < left || y < top || x >= left + width || y >= top + height) return null;
  return {
    row: Math.floor(view.top + ((y - top) / height) * view.rows),
    column: Math.floor(view.left + ((x - left) / width) * view.columns),
  };
}

/** The weights as a picture with one pixel per cell. */
export function imageOf(
  bytes: Uint8Array,
  width: number,
  height: number,
  table: Uint8Array,
): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, width);
  canvas.height = Math.max(1, height);
  const data = new ImageData(canvas.width, canvas.height);
  const words = new Uint32Array(256);
  const parts = new Uint8ClampedArray(words.buffer);
  for (let byte = 0; byte < 256; byte += 1) parts.set([...colourOf(table, byte), 255], byte * 4);
  const pixels = new Uint32Array(data.data.buffer);
  for (let k = 0; k < bytes.length; k += 1) pixels[k] = words[bytes[k]!]!;
  canvas.getContext("2d")?.putImageData(data, 0, 0);
  return canvas;
}

/** Draws the heat map. `whole` gives `imageOf` all weights; cells smaller than the screen's pixels are pooled. */
export function draw(
  context: CanvasRenderingContext2D,
  picture: Picture,
  whole: () => HTMLCanvasElement,
  dots: number,
): void {
  const { layout, view, weights, table } = picture;
  const { left, top, width, height } = layout.plot;
  context.clearRect(0, 0, layout.width, layout.height);
  context.imageSmoothingEnabled = false;
  if (isPooled(layout, view, dots)) {
    const across = Math.min(Math.round(width * dots), Math.ceil(view.columns));
    const down = Math.min(Math.round(height * dots), Math.ceil(view.rows));
    const pooled = poolWindow(weights, view, down, across, picture.signed ? 128 : 0);
    context.drawImage(imageOf(pooled, across, down, table), left, top, width, height);
  } else {
    context.drawImage(whole(), view.left, view.top, view.columns, view.rows, left, top, width, height);
  }
  if (layout.labels) drawLabels(context, picture);
  drawNumbers(context, picture);
  dimLaterRows(context, picture);
  drawFrames(context, picture);
}

export function isPooled(layout: Layout, view: Window, dots: number): boolean {
  return view.columns > layout.plot.width * dots || view.rows > layout.plot.height * dots;
}

function sizes({ layout, view }: Picture): { wide: number; high: number } {
  return { wide: layout.plot.width / view.columns, high: layout.plot.height / view.rows };
}

function drawLabels(context: CanvasRenderingContext2D, picture: Picture): void {
  const { layout, view, rows, columns, selected, hovered, colours } = picture;
  const { left, top } = layout.plot;
  const { wide, high } = sizes(picture);
  context.font = picture.font;
  context.textBaseline = "middle";
  const colour = (isActive: boolean, text: string) => (isActive ? colours.accent : isSpace(text) ? colours.muted : colours.ink);
  for (const row of visible(view.top, view.rows, rows.length, high, selected?.row)) {
    const y = top + (row + 0.5 - view.top) * high;
    context.fillStyle = colour(row === selected?.row || row === hovered?.row, rows[row]!.text);
    context.textAlign = "right";
    const text = fit(context, rows[row]!.text, left - 8);
    context.fillText(text, left - 6, y);
    if (rows[row]!.unknown) dotted(context, left - 6 - context.measureText(text).width, left - 6, y + 8);
  }
  for (const column of visible(view.left, view.columns, columns.length, wide, selected?.column)) {
    const x = left + (column + 0.5 - view.left) * wide;
    context.fillStyle = colour(
      column === selected?.column || column === hovered?.column,
      columns[column]!.text,
    );
    const { text } = columns[column]!;
    const turned = isTurned(context.measureText(text).width, layout.plot.width / columns.length);
    context.save();
    context.translate(x, top - (turned ? 6 : 11));
    if (turned) context.rotate(-Math.PI / 2);
    context.textAlign = turned ? "left" : "center";
    const shown = turned ? fit(context, text, top - 8) : text;
    context.fillText(shown, 0, 0);
    const { width } = context.measureText(shown);
    if (columns[column]!.unknown) dotted(context, turned ? 0 : -width / 2, turned ? width : width / 2, 8);
    context.restore();
  }
}

/** A dotted line below an unknown token. */
function dotted(context: CanvasRenderingContext2D, from: number, to: number, y: number): void {
  context.save();
  context.strokeStyle = context.fillStyle;
  context.lineWidth = 1.5;
  context.setLineDash([1.5, 2]);
  context.beginPath();
  context.moveTo(from, y);
  context.lineTo(to, y);
  context.stroke();
  context.restore();
}

/** The rows whose numbers are printed in this view; null if the cells are too small. */
export function numberedRows(layout: Layout, view: Window, signed: boolean): { first: number; last: number } | null {
  const [wide, high] = [layout.plot.width / view.columns, layout.plot.height / view.rows];
  if (wide < (signed ? 36 : 30) || high < 18) return null;
  return { first: Math.max(0, Math.floor(view.top + 1e-6)), last: Math.ceil(view.top + view.rows - 1e-6) - 1 };
}

function drawNumbers(context: CanvasRenderingContext2D, picture: Picture): void {
  const { layout, view, weights, table, signed } = picture;
  const { wide, high } = sizes(picture);
  if (!numberedRows(layout, view, signed)) return;
  context.font = picture.font.replace(/\d+px/, "11px");
  context.textAlign = "center";
  context.textBaseline = "middle";
  for (const row of visible(view.top, view.rows, weights.queries, Infinity)) {
    for (const column of visible(view.left, view.columns, weights.keys, Infinity)) {
      const value = at(weights, row, column);
      if (value === null || Math.abs(value) < 0.005) continue;
      const x = layout.plot.left + (column + 0.5 - view.left) * wide;
      const y = layout.plot.top + (row + 0.5 - view.top) * high;
      if (x < layout.plot.left || y < layout.plot.top) continue;
      context.fillStyle = inkOn(colourOf(table, weights.data[row * weights.keys + column]!));
      context.fillText(signed ? withSign(fixed(value, 2)) : fixed(value, 2), x, y);
    }
  }
}

/** Covers the rows of later steps with a translucent layer. */
function dimLaterRows(context: CanvasRenderingContext2D, picture: Picture): void {
  const { layout, view, weights, colours, until } = picture;
  const { left, top, width, height } = layout.plot;
  const from = Math.max(0, (until - view.top) / view.rows) * height;
  if (until >= weights.queries || from >= height) return;
  context.globalAlpha = 0.85;
  context.fillStyle = colours.paper;
  context.fillRect(0, top + from, left + width, height - from);
  context.globalAlpha = 1;
}

function drawFrames(context: CanvasRenderingContext2D, picture: Picture): void {
  const { layout, view, selected, hovered, colours } = picture;
  const { left, top, width, height } = layout.plot;
  const { wide, high } = sizes(picture);
  context.save();
  context.beginPath();
  context.rect(left - 1, top - 1, width + 2, height + 2);
  context.clip();
  const frame = (cell: Cell, colour: string, lineWidth: number, grow: number) => {
    const [across, down] = [Math.max(wide, 4), Math.max(high, 4)];
    const x = left + (cell.column + 0.5 - view.left) * wide - across / 2;
    const y = top + (cell.row + 0.5 - view.top) * high - down / 2;
    context.strokeStyle = colour;
    context.lineWidth = lineWidth;
    context.strokeRect(x - grow, y - grow, across + 2 * grow, down + 2 * grow);
  };
  if (hovered) frame(hovered, "#ffffff", 1.5, 0);
  if (selected) {
    frame(selected, "#000000", 4, 0);
    frame(selected, "#ffffff", 2, 0);
  }
  context.restore();
  context.strokeStyle = colours.muted;
  context.globalAlpha = 0.5;
  context.lineWidth = 1;
  context.strokeRect(left - 0.5, top - 0.5, width + 1, height + 1);
  context.globalAlpha = 1;
}

/** The indices in a window, spaced so that labels do not overlap; always with the chosen one. */
function visible(start: number, length: number, count: number, size: number, chosen?: number): number[] {
  const first = Math.max(0, Math.floor(start + 1e-6));
  const last = Math.min(count, Math.ceil(start + length - 1e-6));
  const stride = Math.max(1, Math.ceil(MIN_LABEL_DISTANCE / size));
  const indices: number[] = [];
  for (let k = Math.ceil(first / stride) * stride; k < last; k += stride) {
    if (chosen === undefined || k === chosen || Math.abs(k - chosen) >= stride) indices.push(k);
  }
  const isMissing = chosen !== undefined && chosen >= first && chosen < last && !indices.includes(chosen);
  return isMissing ? [...indices, chosen] : indices;
}

function fit(context: CanvasRenderingContext2D, text: string, width: number): string {
  if (context.measureText(text).width <= width) return text;
  const signs = [...text];
  while (signs.length > 1 && context.measureText(`${signs.join("")}…`).width > width) signs.pop();
  return `${signs.join("")}…`;
}

function sample(labels: string[]): string[] {
  return labels.length <= 400 ? labels : labels.filter((_, k) => k % Math.ceil(labels.length / 400) === 0);
}

function whole(size: number): number {
  return size >= SMALL_CELL ? Math.floor(size) : size;
}
