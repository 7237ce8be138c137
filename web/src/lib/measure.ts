// The width of a text on the page, and the part of it that fits.
export const SANS = '"Inter", system-ui, "Noto Sans CJK SC", "PingFang SC", "Microsoft YaHei", sans-serif';

let context: CanvasRenderingContext2D | null | undefined;
const widths = new Map<string, number>();
const MAX_ENTRIES = 4000;

export function widthOf(text: string, size: number): number {
  const key = `${size} ${text}`;
  const cached = widths.get(key);
  if (cached !== undefined) return cached;
  context ??= document.createElement("canvas").getContext("2d");
  if (context) context.font = `${size}px ${SANS}`;
  const width = context?.measureText(text).width ?? text.length * size * 0.6;
  if (widths.size > MAX_ENTRIES) widths.clear();
  widths.set(key, width);
  return width;
}

/** The text, shortened to a width. */
export function fitted(text: string, size: number, width: number): string {
  if (widthOf(text, size) <= width) return text;
  const signs = [...text];
  while (signs.length > 1 && widthOf(`${signs.join("")}…`, size) > width) signs.pop();
  return `${signs.join("")}…`;
}
