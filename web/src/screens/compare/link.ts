// Linked input tokens: models split a text differently, so a token is identified by its letters.
import type { Axis } from "../../lib/types";

export type Stretch = { start: number; end: number };

/** Which letters (spaces not counted) each raw token holds; a mark holds none. */
export function stretchesOf(axis: Axis): Stretch[] {
  const stretches: Stretch[] = axis.tokens.map(() => ({ start: -1, end: -1 }));
  let position = 0;
  for (const label of axis.labels) {
    if (label.mark) continue;
    const count = [...label.text.replace(/[\s▁]/gu, "")].length;
    for (let k = label.first; k <= label.last; k += 1) stretches[k] = { start: position, end: position + count };
    position += count;
  }
  return stretches;
}

export function touches(one: Stretch | undefined, other: Stretch | null): boolean {
  if (!one || !other || one.start < 0) return false;
  if (one.start === one.end || other.start === other.end)
    return one.start === other.start && one.end === other.end;
  return one.start < other.end && other.start < one.end;
}

export function toText(stretch: Stretch): string {
  return `${stretch.start}-${stretch.end}`;
}

export function fromText(text: string | undefined): Stretch | null {
  const [, start, end] = /^(\d{1,6})-(\d{1,6})$/.exec(text ?? "") ?? [];
  return start && end ? { start: Number(start), end: Number(end) } : null;
}
