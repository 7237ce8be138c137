// Linked source tokens: systems cut a text differently, so a token is known by the letters that it holds.
import type { Side } from "../../lib/types";

export type Stretch = { start: number; end: number };

/** Which letters (spaces not counted) each raw token holds; a mark holds none. */
export function stretches(side: Side): Stretch[] {
  const found: Stretch[] = side.tokens.map(() => ({ start: -1, end: -1 }));
  let place = 0;
  for (const piece of side.pieces) {
    if (piece.mark) continue;
    const count = [...piece.text.replace(/[\s▁]/gu, "")].length;
    for (let k = piece.first; k <= piece.last; k += 1) found[k] = { start: place, end: place + count };
    place += count;
  }
  return found;
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
