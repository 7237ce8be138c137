// The layout of the tokens and ribbons of an alignment: two rows if they fit, else two columns.
import type { DisplayToken } from "./labels";
import { shade, type Weights } from "./weights";

export const MAX_TOKENS = 60;

export type TokenBox = { x: number; y: number; text: string; width: number };
export type Ribbon = { row: number; column: number; path: string; thickness: number; share: number };
export type RibbonLayout = {
  width: number;
  height: number;
  across: boolean;
  /** Font size of the tokens. */
  size: number;
  keys: TokenBox[];
  queries: TokenBox[];
};
export type Measure = (text: string, size: number) => number;

const SIZES = [22, 18, 15];
const GAP = 8;
const MIN_TOKEN_WIDTH = 10;
const LINE = 26;
/** Height of the names of the two sides. */
const NAME = 24;
const EDGE = NAME + 20;
const MAX_GAP = 36;
const MIN_WEIGHT = 0.02;

/** Keys above and queries below, in the largest font in which both rows fit; else keys left and queries right. */
export function layOutRibbons(
  rows: DisplayToken[],
  columns: DisplayToken[],
  availableWidth: number,
  maxHeight: number,
  measure: Measure,
): RibbonLayout {
  const size = SIZES.find((one) => Math.max(line(rows, one, measure), line(columns, one, measure)) <= availableWidth);
  if (size !== undefined) {
    const keys = spread(columns, size, availableWidth, EDGE, measure);
    const queries = spread(rows, size, availableWidth, maxHeight - EDGE, measure);
    return { width: availableWidth, height: maxHeight, across: true, size, keys, queries };
  }
  const width = Math.min(availableWidth, 640);
  const height = NAME + LINE * Math.max(rows.length, columns.length) + 8;
  const letters = 16;
  const widest = (tokens: DisplayToken[]) => Math.max(...tokens.map((token) => wide(token, letters, measure)));
  const edge = (tokens: DisplayToken[]) => Math.min(widest(tokens) + GAP, width * 0.34);
  const column = (tokens: DisplayToken[], x: number) =>
    tokens.map((token, k) => ({
      x,
      y: NAME + 4 + ((k + 0.5) * (height - NAME - 8)) / tokens.length,
      text: token.text,
      width: Math.min(wide(token, letters, measure), edge(tokens)),
    }));
  const [keys, queries] = [column(columns, edge(columns)), column(rows, width - edge(rows))];
  return { width, height, across: false, size: letters, keys, queries };
}

/** A ribbon for every weight of at least MIN_WEIGHT, thin ones first so that thick ones are drawn on top. */
export function ribbons(weights: Weights, layout: RibbonLayout): Ribbon[] {
  const all: Ribbon[] = [];
  const thickest = layout.across ? layout.size : 12;
  layout.queries.forEach((query, row) => {
    layout.keys.forEach((key, column) => {
      const share = shade(weights, row, column);
      if (share < MIN_WEIGHT) return;
      const path = layout.across ? down(key, query) : over(key, query);
      all.push({ row, column, path, thickness: Math.max(0.75, Math.min(1, share) * thickest), share });
    });
  });
  return all.sort((one, other) => one.share - other.share);
}

function wide(token: DisplayToken, size: number, measure: Measure): number {
  return Math.max(Math.ceil(measure(token.text, size)), MIN_TOKEN_WIDTH);
}

function line(tokens: DisplayToken[], size: number, measure: Measure): number {
  return tokens.reduce((sum, token) => sum + wide(token, size, measure) + GAP, GAP);
}

function spread(tokens: DisplayToken[], size: number, availableWidth: number, y: number, measure: Measure): TokenBox[] {
  const minWidth = line(tokens, size, measure);
  const free = Math.min(MAX_GAP, (availableWidth - minWidth) / Math.max(1, tokens.length));
  let x = (availableWidth - minWidth - free * tokens.length) / 2 + GAP;
  return tokens.map((token) => {
    const width = wide(token, size, measure);
    const box = { x: x + (width + free) / 2, y, text: token.text, width };
    x += width + GAP + free;
    return box;
  });
}

function down(key: TokenBox, query: TokenBox): string {
  const [top, bottom] = [key.y + 16, query.y - 16];
  const middle = (top + bottom) / 2;
  const [from, to] = [round(key.x), round(query.x)];
  return `M${from} ${top}C${from} ${middle} ${to} ${middle} ${to} ${bottom}`;
}

function over(key: TokenBox, query: TokenBox): string {
  const [left, right] = [key.x + 6, query.x - 6];
  const middle = (left + right) / 2;
  const [from, to] = [round(key.y), round(query.y)];
  return `M${left} ${from}C${middle} ${from} ${middle} ${to} ${right} ${to}`;
}

function round(x: number): number {
  return Math.round(x * 10) / 10;
}
