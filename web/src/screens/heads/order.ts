// The heads in groups by kind, and in each by layer or in the order of a measure.
import type { HeadCard } from "../../lib/types";

export const MEASURES = ["entropy", "distance", "diagonal", "peak"] as const;
export type Measure = (typeof MEASURES)[number];
export type Order = Measure | "layer";

const KINDS = ["source", "target", "cross"] as const;

export interface Tile {
  card: HeadCard;
  /** The place of its thumbnail in what the server sent. */
  place: number;
}

export interface Row {
  /** Null where a row mixes layers. */
  layer: string | null;
  tiles: Tile[];
}

export interface Group {
  kind: HeadCard["kind"];
  rows: Row[];
}

const isMeasure = (name: string | undefined): name is Measure => MEASURES.some((each) => each === name);
export const orderOf = (written: string | undefined): Order => (isMeasure(written) ? written : "layer");

function byLayer(tiles: readonly Tile[]): Row[] {
  const rows = new Map<string, Row>();
  for (const tile of tiles) {
    const row = rows.get(tile.card.site) ?? { layer: tile.card.layer, tiles: [] };
    row.tiles.push(tile);
    rows.set(tile.card.site, row);
  }
  return [...rows.values()];
}

export function grouped(cards: readonly HeadCard[], order: Order, down: boolean): Group[] {
  const tiles = cards.map((card, place) => ({ card, place }));
  const groups: Group[] = [];
  for (const kind of KINDS) {
    const own = tiles.filter((tile) => tile.card.kind === kind);
    if (own.length === 0) continue;
    if (order === "layer") {
      const rows = byLayer(own);
      groups.push({ kind, rows: down ? rows.reverse() : rows });
    } else {
      own.sort((one, other) => (one.card[order] - other.card[order]) * (down ? -1 : 1));
      groups.push({ kind, rows: [{ layer: null, tiles: own }] });
    }
  }
  return groups;
}
