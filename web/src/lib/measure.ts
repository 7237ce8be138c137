// How wide a text is on the page, and what of it fits.
export const SANS = '"Inter", system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

let pen: CanvasRenderingContext2D | null | undefined;
const widths = new Map<string, number>();
const MOST = 4000;

export function widthOf(text: string, size: number): number {
  const key = `${size} ${text}`;
  const known = widths.get(key);
  if (known !== undefined) return known;
  pen ??= document.createElement("canvas").getContext("2d");
  if (pen) pen.font = `${size}px ${SANS}`;
  const width = pen?.measureText(text).width ?? text.length * size * 0.6;
  if (widths.size > MOST) widths.clear();
  widths.set(key, width);
  return width;
}

/** The text, or as much of its beginning as fits the room. */
export function fitted(text: string, size: number, room: number): string {
  if (widthOf(text, size) <= room) return text;
  const signs = [...text];
  while (signs.length > 1 && widthOf(`${signs.join("")}…`, size) > room) signs.pop();
  return `${signs.join("")}…`;
}
