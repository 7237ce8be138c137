// Thumbnails of heads as pictures: one on a canvas, or all on a sheet with their names.
import { viridisTable } from "../../lib/colour";
import type { Group, Tile } from "./order";

export interface Pictures {
  size: number;
  data: Uint8Array;
}

/** One head's thumbnail, a pixel a byte. */
export function imageOf({ size, data }: Pictures, position: number): ImageData {
  const image = new ImageData(size, size);
  const start = position * size * size;
  for (let k = 0; k < size * size; k += 1) {
    const byte = data[start + k] ?? 0;
    image.data.set(viridisTable.subarray(byte * 3, byte * 3 + 3), k * 4);
    image.data[k * 4 + 3] = 255;
  }
  return image;
}

export function paint(canvas: HTMLCanvasElement, pictures: Pictures, position: number): void {
  canvas.width = canvas.height = pictures.size;
  canvas.getContext("2d")?.putImageData(imageOf(pictures, position), 0, 0);
}

const SIDE = 208;
const GAP = 24;
const LINE = 32;
const MOST_ACROSS = 8;
const FONT = '18px "Inter", system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

interface Naming {
  group: (group: Group) => string;
  tile: (tile: Tile) => string;
}

/** Tiles in lines of a sheet, each line no longer than the sheet is wide. */
function linesOf(group: Group): Tile[][] {
  return group.rows.flatMap(({ tiles }) =>
    Array.from({ length: Math.ceil(tiles.length / MOST_ACROSS) }, (_, line) =>
      tiles.slice(line * MOST_ACROSS, (line + 1) * MOST_ACROSS),
    ),
  );
}

/** All heads in their present order, at twice the size of the page, for a PNG. */
export function sheet(pictures: Pictures, groups: Group[], names: Naming, ink: string): HTMLCanvasElement {
  const lines = groups.map(linesOf);
  const across = Math.max(1, ...lines.flat().map((tiles) => tiles.length));
  const down = lines.flat().length;
  const canvas = document.createElement("canvas");
  canvas.width = GAP + Math.max(4, across) * (SIDE + GAP);
  canvas.height = GAP + groups.length * 2 * LINE + down * (SIDE + 2 * LINE);
  const context = canvas.getContext("2d");
  if (!context) return canvas;
  context.imageSmoothingEnabled = false;
  context.fillStyle = ink;
  context.font = FONT;
  const one = document.createElement("canvas");
  let top = GAP;
  groups.forEach((group, position) => {
    context.fillText(names.group(group), GAP, top + 20);
    top += 2 * LINE;
    for (const tiles of lines[position] ?? []) {
      tiles.forEach((tile, column) => {
        const left = GAP + column * (SIDE + GAP);
        paint(one, pictures, tile.position);
        context.drawImage(one, left, top, SIDE, SIDE);
        context.fillText(names.tile(tile), left, top + SIDE + 24, SIDE);
      });
      top += SIDE + 2 * LINE;
    }
  });
  return canvas;
}
