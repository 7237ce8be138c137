// The layout of the timeline: lanes, years on a piecewise scale, and labels that never overlap.
import { scaleLinear } from "d3-scale";
import type { LocalizedText, Milestone } from "../../lib/types";

export const ROW = 29;
export const MARK = 6;
export const AXIS = 44;
const LANE_PADDING = 9;
const LABEL_GAP = 8;
const LABEL_SPACE = 14;
const CROWDED = { from: 2013, to: 2017 };
const LONG_GAP = 3;

export interface PositionedItem {
  item: Milestone;
  x: number;
  y: number;
  /** True if the label is left of its mark, for lack of space on the right. */
  left: boolean;
  width: number;
}

export interface Lane {
  family: string;
  title: LocalizedText;
  top: number;
  height: number;
  placed: PositionedItem[];
}

export interface Tick {
  year: number;
  x: number;
}

export interface Picture {
  lanes: Lane[];
  ticks: Tick[];
  /** Middles of the intervals of the axis that omit years. */
  breaks: number[];
  /** The densest interval, or null if it is empty. */
  crowded: { left: number; right: number } | null;
  height: number;
}

export const chronological = (items: readonly Milestone[]): Milestone[] =>
  [...items].sort(
    (one, other) => one.year - other.year || one.lane - other.lane,
  );

function stepOf(from: number, to: number): number {
  if (from >= CROWDED.from && to <= CROWDED.to) return 2 * (to - from);
  return Math.min(1 + 0.15 * (to - from - 1), 1.6);
}

/** Each year with items and its position: dense years get more space, empty ones little. */
export function positionYears(items: readonly Milestone[], left: number, right: number): Tick[] {
  const years = [...new Set(items.map((item) => item.year))].sort((one, other) => one - other);
  const positions = [0];
  for (let index = 1; index < years.length; index += 1) {
    positions.push(positions[index - 1] + stepOf(years[index - 1], years[index]));
  }
  const scale = scaleLinear([0, positions.at(-1) || 1], [left, right]);
  return years.map((year, index) => ({ year, x: scale(positions[index]) }));
}

interface Span {
  from: number;
  to: number;
}

const reachOf = (x: number, width: number, left: boolean): Span => {
  const near = MARK + 2;
  const far = MARK + LABEL_GAP + width + LABEL_SPACE;
  return left ? { from: x - far, to: x + near } : { from: x - near, to: x + far };
};

/** Puts each item of a lane into the first row with space for its mark and label. */
function pack(items: readonly Milestone[], xOf: (year: number) => number, right: number, widthOf: WidthOf): PositionedItem[] {
  const rows: Span[][] = [];
  return chronological(items).map((item) => {
    const x = xOf(item.year);
    const width = widthOf(item);
    const left = reachOf(x, width, false).to > right + LABEL_SPACE;
    const reach = reachOf(x, width, left);
    const isFree = (row: Span[]): boolean => row.every((span) => reach.to <= span.from || reach.from >= span.to);
    let row = rows.findIndex(isFree);
    if (row < 0) row = rows.push([]) - 1;
    rows[row].push(reach);
    return { item, x, y: row * ROW, left, width };
  });
}

/** The width of an item's label. */
export type WidthOf = (item: Milestone) => number;

export function layOut(items: readonly Milestone[], left: number, right: number, widthOf: WidthOf): Picture {
  const ticks = positionYears(items, left, right - MARK);
  const positions = new Map(ticks.map((tick) => [tick.year, tick.x]));
  let top = AXIS;
  const lanes: Lane[] = [];
  const numbers = [...new Set(items.map((item) => item.lane))].sort((one, other) => one - other);
  for (const number of numbers) {
    const own = items.filter((item) => item.lane === number);
    const [{ family, family_title: title }] = own as [Milestone];
    const packed = pack(own, (year) => positions.get(year) ?? left, right, widthOf);
    const height = Math.max(...packed.map((placed) => placed.y)) + ROW + 2 * LANE_PADDING;
    const first = top + LANE_PADDING + ROW / 2;
    lanes.push({ family, title, top, height, placed: packed.map((placed) => ({ ...placed, y: placed.y + first })) });
    top += height;
  }
  const breaks = ticks
    .slice(1)
    .flatMap((tick, index) => (tick.year - ticks[index].year > LONG_GAP ? [(tick.x + ticks[index].x) / 2] : []));
  const inside = ticks.filter((tick) => tick.year >= CROWDED.from && tick.year <= CROWDED.to);
  const crowded = inside.length > 1 ? { left: inside[0].x, right: inside[inside.length - 1].x } : null;
  return { lanes, ticks, breaks, crowded, height: top };
}

/** The item that an arrow key selects: in the same lane by time, or the nearest of the next lane. */
export function neighbour(picture: Picture, key: string, arrow: string): string | null {
  const lane = picture.lanes.findIndex((each) => each.placed.some((placed) => placed.item.key === key));
  if (lane < 0) return null;
  const { placed } = picture.lanes[lane];
  const position = placed.findIndex((each) => each.item.key === key);
  if (arrow === "ArrowRight") return placed[position + 1]?.item.key ?? null;
  if (arrow === "ArrowLeft") return placed[position - 1]?.item.key ?? null;
  if (arrow === "Home") return placed[0].item.key;
  if (arrow === "End") return placed[placed.length - 1].item.key;
  const next = picture.lanes[lane + (arrow === "ArrowDown" ? 1 : -1)];
  if (!next) return null;
  const distance = (other: PositionedItem): number => Math.abs(other.x - placed[position].x);
  return next.placed.reduce((best, other) => (distance(other) < distance(best) ? other : best)).item.key;
}
