// Linked input tokens: models tokenise differently, so a token is identified by its range of characters.
import { writtenText } from "../../lib/labels";
import type { Axis } from "../../lib/types";

export type CharRange = { start: number; end: number };

/** The range of characters (without spaces) of each raw token; -1 for special tokens. */
export function charRangesOf(axis: Axis): CharRange[] {
  const ranges: CharRange[] = axis.tokens.map(() => ({ start: -1, end: -1 }));
  let position = 0;
  for (const label of axis.labels) {
    if (label.mark) continue;
    const text = writtenText(axis, label) ?? label.text;
    const count = [...text.replace(/[\s▁]/gu, "")].length;
    for (let k = label.first; k <= label.last; k += 1) ranges[k] = { start: position, end: position + count };
    position += count;
  }
  return ranges;
}

export function touches(one: CharRange | undefined, other: CharRange | null): boolean {
  if (!one || !other || one.start < 0) return false;
  if (one.start === one.end || other.start === other.end)
    return one.start === other.start && one.end === other.end;
  return one.start < other.end && other.start < one.end;
}

export function toText(range: CharRange): string {
  return `${range.start}-${range.end}`;
}

export function fromText(text: string | undefined): CharRange | null {
  const [, start, end] = /^(\d{1,6})-(\d{1,6})$/.exec(text ?? "") ?? [];
  return start && end ? { start: Number(start), end: Number(end) } : null;
}
