// The heads in groups by their axes, and in each by layer or by a measure.
import type { HeadMeasures } from "../../lib/types";

export const MEASURES = ["entropy", "distance", "diagonal", "peak"] as const;
export type Measure = (typeof MEASURES)[number];
export type Order = Measure | "layer";

export interface Tile {
  card: HeadMeasures;
  /** The position of its thumbnail in the response. */
  position: number;
}

export interface Row {
  /** Null for a row with several layers. */
  layer: string | null;
  tiles: Tile[];
}

/** Heads whose queries and keys lie on the same axes. */
export interface Group {
  queries: string;
  keys: string;
  rows: Row[];
}

const isMeasure = (name: string | undefined): name is Measure => MEASURES.some((each) => each === name);
export const orderOf = (name: string | undefined): Order => (isMeasure(name) ? name : "layer");

function byLayer(tiles: readonly Tile[]): Row[] {
  const rows = new Map<string, Row>();
  for (const tile of tiles) {
    const row = rows.get(tile.card.site) ?? { layer: tile.card.layer, tiles: [] };
    row.tiles.push(tile);
    rows.set(tile.card.site, row);
  }
  return [...rows.values()];
}

/** The axes of a head, as one text. */
export const axesOf = ({ queries, keys }: { queries: string; keys: string }): string => `${queries}-${keys}`;

export function grouped(cards: readonly HeadMeasures[], order: Order, down: boolean): Group[] {
  const tiles = cards.map((card, position) => ({ card, position }));
  const groups: Group[] = [];
  for (const name of new Set(cards.map(axesOf))) {
    const own = tiles.filter((tile) => axesOf(tile.card) === name);
    const [{ card }] = own as [Tile];
    const { queries, keys } = card;
    if (order === "layer") {
      const rows = byLayer(own);
      groups.push({ queries, keys, rows: down ? rows.reverse() : rows });
    } else {
      own.sort((one, other) => (one.card[order] - other.card[order]) * (down ? -1 : 1));
      groups.push({ queries, keys, rows: [{ layer: null, tiles: own }] });
    }
  }
  return groups;
}
