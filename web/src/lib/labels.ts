// Tokens as they are shown: bytes merged to whole characters, marks hidden, invisible characters made visible.
import type { Axis } from "./types";

export type Shown = { text: string; first: number; last: number };

const SPACE = "␣";
/** What tokenisers write for a space. */
const BLANK = "▁";
const SIGNS: Record<string, string> = { " ": SPACE, "\n": "⏎", "\r": "␍", "\t": "⇥" };
const INVISIBLE =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\u{115F}\u{1160}\u{3164}\u{FFA0}\u{FE00}-\u{FE0F}]/gu;
const SPACES = /^\p{Zs}+$/u;

/** The axis' tokens: whole characters without marks, or (raw) every token. */
export function shown(axis: Axis, raw: boolean): Shown[] {
  if (raw) return axis.tokens.map((token, k) => ({ text: clean(token), first: k, last: k }));
  const labels = axis.labels.filter((label) => !label.mark);
  return labels.map(({ text, first, last }) => ({ text: labelText(text), first, last }));
}

/** The text of a label: what a tokeniser writes for a space is one. */
export function labelText(text: string): string {
  return text === BLANK ? SPACE : clean(text);
}

/** Makes zero-width, control and direction characters visible by their code, and lone spaces by a sign. */
export function clean(text: string): string {
  if (text === "") return "∅";
  if (SPACES.test(text)) return [...text].map((sign) => SIGNS[sign] ?? code(sign)).join("");
  const visible = text.replace(INVISIBLE, (sign) => SIGNS[sign] ?? code(sign));
  return /^\p{M}/u.test(visible) ? `◌${visible}` : visible;
}

/** Whether a shown token is only the sign of a space. */
export function isSpace(text: string): boolean {
  return text === SPACE || text === BLANK;
}

/** The position of a raw index among the shown tokens, or -1 where it is hidden. */
export function positionOf(tokens: Shown[], index: number | null | undefined): number {
  if (index === null || index === undefined) return -1;
  return tokens.findIndex((token) => token.first <= index && index <= token.last);
}

function code(sign: string): string {
  return `⟨${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
