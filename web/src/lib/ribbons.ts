// Where the tokens and ribbons of an alignment stand: one row above the other where they fit, else side by side.
import type { Shown } from "./labels";
import { at, type Weights } from "./weights";

export const MOST_TOKENS = 60;

export type Spot = { x: number; y: number; text: string; width: number };
export type Ribbon = { row: number; column: number; path: string; thickness: number; share: number };
export type RibbonLayout = {
  width: number;
  height: number;
  across: boolean;
  /** Of the tokens' letters. */
  size: number;
  keys: Spot[];
  queries: Spot[];
};
export type Measure = (text: string, size: number) => number;

const SIZES = [22, 18, 15];
const GAP = 8;
const NARROWEST = 10;
const LINE = 26;
/** Room for the names of the two sides. */
const NAME = 24;
const EDGE = NAME + 20;
const MOST_FREE = 36;
const FAINTEST = 0.02;

/** Source tokens above and target tokens below, as large as both rows fit the width; else left and right. */
export function position(
  rows: Shown[],
  columns: Shown[],
  room: number,
  tall: number,
  measure: Measure,
): RibbonLayout {
  const size = SIZES.find((one) => Math.max(line(rows, one, measure), line(columns, one, measure)) <= room);
  if (size !== undefined) {
    const keys = spread(columns, size, room, EDGE, measure);
    const queries = spread(rows, size, room, tall - EDGE, measure);
    return { width: room, height: tall, across: true, size, keys, queries };
  }
  const width = Math.min(room, 640);
  const height = NAME + LINE * Math.max(rows.length, columns.length) + 8;
  const letters = 16;
  const widest = (tokens: Shown[]) => Math.max(...tokens.map((token) => wide(token, letters, measure)));
  const edge = (tokens: Shown[]) => Math.min(widest(tokens) + GAP, width * 0.34);
  const column = (tokens: Shown[], x: number) =>
    tokens.map((token, k) => ({
      x,
      y: NAME + 4 + ((k + 0.5) * (height - NAME - 8)) / tokens.length,
      text: token.text,
      width: Math.min(wide(token, letters, measure), edge(tokens)),
    }));
  const [keys, queries] = [column(columns, edge(columns)), column(rows, width - edge(rows))];
  return { width, height, across: false, size: letters, keys, queries };
}

/** A ribbon for every weight that can be seen, the thin ones first so that the thick lie on top. */
export function ribbons(weights: Weights, layout: RibbonLayout): Ribbon[] {
  const found: Ribbon[] = [];
  const thickest = layout.across ? layout.size : 12;
  layout.queries.forEach((query, row) => {
    layout.keys.forEach((key, column) => {
      const share = at(weights, row, column);
      if (share < FAINTEST) return;
      const path = layout.across ? down(key, query) : over(key, query);
      found.push({ row, column, path, thickness: Math.max(0.75, Math.min(1, share) * thickest), share });
    });
  });
  return found.sort((one, other) => one.share - other.share);
}

function wide(token: Shown, size: number, measure: Measure): number {
  return Math.max(Math.ceil(measure(token.text, size)), NARROWEST);
}

function line(tokens: Shown[], size: number, measure: Measure): number {
  return tokens.reduce((sum, token) => sum + wide(token, size, measure) + GAP, GAP);
}

function spread(tokens: Shown[], size: number, room: number, y: number, measure: Measure): Spot[] {
  const least = line(tokens, size, measure);
  const free = Math.min(MOST_FREE, (room - least) / Math.max(1, tokens.length));
  let x = (room - least - free * tokens.length) / 2 + GAP;
  return tokens.map((token) => {
    const width = wide(token, size, measure);
    const spot = { x: x + (width + free) / 2, y, text: token.text, width };
    x += width + GAP + free;
    return spot;
  });
}

function down(key: Spot, query: Spot): string {
  const [top, bottom] = [key.y + 16, query.y - 16];
  const middle = (top + bottom) / 2;
  const [from, to] = [round(key.x), round(query.x)];
  return `M${from} ${top}C${from} ${middle} ${to} ${middle} ${to} ${bottom}`;
}

function over(key: Spot, query: Spot): string {
  const [left, right] = [key.x + 6, query.x - 6];
  const middle = (left + right) / 2;
  const [from, to] = [round(key.y), round(query.y)];
  return `M${left} ${from}C${middle} ${from} ${middle} ${to} ${right} ${to}`;
}

function round(x: number): number {
  return Math.round(x * 10) / 10;
}
