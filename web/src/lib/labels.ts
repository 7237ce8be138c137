// Tokens for display: bytes merged to whole characters, marks hidden, invisible characters escaped.
import type { Axis } from "./types";

/** `unknown`: not in the vocabulary; the text is what the user wrote, while the model gets <unk>. */
export type DisplayToken = { text: string; first: number; last: number; unknown?: true };

const SPACE = "␣";
/** A space in the tokens of tokenisers. */
const BLANK = "▁";
const SIGNS: Record<string, string> = { " ": SPACE, "\n": "⏎", "\r": "␍", "\t": "⇥" };
const INVISIBLE =
  /[\p{Cc}\p{Cf}\p{Zl}\p{Zp}\p{Cs}\p{Co}\p{Cn}\u{115F}\u{1160}\u{3164}\u{FFA0}\u{FE00}-\u{FE0F}]/gu;
const SPACES = /^\p{Zs}+$/u;

/** The axis' tokens: whole characters without marks, or (raw) every token. */
export function displayTokens(axis: Axis, raw: boolean): DisplayToken[] {
  if (raw) return axis.tokens.map((token, k) => ({ text: clean(token), first: k, last: k }));
  const labels = axis.labels.filter((label) => !label.mark);
  return labels.map((label) => {
    const { first, last } = label;
    const written = writtenText(axis, label);
    return written === null ? { text: labelText(label.text), first, last } : { text: clean(written), first, last, unknown: true };
  });
}

/** What the user wrote in place of an unknown token; null for any other token, and where the text was predicted. */
export function writtenText(axis: Axis, { first, last }: { first: number; last: number }): string | null {
  const text = axis.texts[first] ?? "";
  if (first !== last || text === "" || !axis.unknown.includes(first)) return null;
  return text.trim() || text;
}

/** The text of a label, with a tokeniser's space as ␣. */
export function labelText(text: string): string {
  return text === BLANK ? SPACE : clean(text);
}

/** Shows zero-width, control and direction characters as their code, and lone spaces as a sign. */
export function clean(text: string): string {
  if (text === "") return "∅";
  if (SPACES.test(text)) return [...text].map((sign) => SIGNS[sign] ?? code(sign)).join("");
  const visible = text.replace(INVISIBLE, (sign) => SIGNS[sign] ?? code(sign));
  return /^\p{M}/u.test(visible) ? `◌${visible}` : visible;
}

/** True if a display token is only a space. */
export function isSpace(text: string): boolean {
  return text === SPACE || text === BLANK;
}

/** The position of a raw index among the display tokens, or -1 if it is hidden. */
export function positionOf(tokens: DisplayToken[], index: number | null | undefined): number {
  if (index === null || index === undefined) return -1;
  return tokens.findIndex((token) => token.first <= index && index <= token.last);
}

function code(sign: string): string {
  return `⟨${(sign.codePointAt(0) ?? 0).toString(16).toUpperCase().padStart(4, "0")}⟩`;
}
