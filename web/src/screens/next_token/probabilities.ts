// Probabilities of display tokens and growth of the state, from numbers by raw token; settings of Generate.
import { fixed } from "../../lib/format";
import type { DisplayToken } from "../../lib/labels";
import type { NextTokens, StateGrowth, TokenPredictions } from "../../lib/types";

/** The probability of a display token given those before it; null for the first. */
export function probabilityOf(predictions: TokenPredictions, { first, last }: DisplayToken): number | null {
  let sum = 0;
  for (let at = first; at <= last; at += 1) {
    const one = predictions.log_probs[at];
    if (one === null || one === undefined) return null;
    sum += one;
  }
  return Math.exp(sum);
}

/** How surprising a probability is: 0 is certain, 1 no better than any token of the vocabulary. */
export function surpriseOf(probability: number | null, vocabulary: number): number {
  if (probability === null || vocabulary < 2) return 0;
  return Math.min(1, Math.max(0, -Math.log(Math.max(probability, 1e-300)) / Math.log(vocabulary)));
}

export type Growth = "constant" | "grows" | "window";

/** Whether the state has a fixed size, grows with every token, or has reached its full size. */
export function growthOf({ filled }: StateGrowth): Growth {
  const [first, last, before] = [filled[0], filled.at(-1), filled.at(-2)];
  if (first === last) return "constant";
  return before === last ? "window" : "grows";
}

/** 1536 -> "1,536 bytes", 4096000 -> "4.1 MB". */
export function bytesText(count: number, unit: string): string {
  if (count < 100_000) return `${count.toLocaleString("en-US")} ${unit}`;
  return count < 1e6 ? `${fixed(count / 1e3, 0)} kB` : `${fixed(count / 1e6, 1)} MB`;
}

export type Row = { id: number; token: string; probability: number; rank: number; isTrue: boolean };

/** The most probable tokens, followed by the true one if it is not among them. */
export function rowsOf({ candidates, true: real }: NextTokens): Row[] {
  const rows = candidates.map((one) => ({ ...one, isTrue: one.id === real?.id }));
  if (real && !rows.some((row) => row.isTrue)) rows.push({ ...real, isTrue: true });
  return rows;
}

export type Settings = { tokens: number; temperature: number; topP: number; seed: number };
export const DEFAULTS: Settings = { tokens: 20, temperature: 0.8, topP: 0.95, seed: 0 };
export const LIMITS = {
  tokens: { low: 1, high: 200, step: 1 },
  temperature: { low: 0, high: 5, step: 0.1 },
  topP: { low: 0.05, high: 1, step: 0.05 },
  seed: { low: 0, high: 2147483647, step: 1 },
} as const;

/** Settings from the URL, with defaults for invalid ones. */
export function readSettings(extra: Record<string, string>): Settings {
  const settings = { ...DEFAULTS };
  for (const name of Object.keys(DEFAULTS) as (keyof Settings)[]) settings[name] = within(name, extra[name]);
  return settings;
}

export function writeSettings(extra: Record<string, string>, settings: Settings): Record<string, string> {
  const written = { ...extra };
  for (const name of Object.keys(DEFAULTS) as (keyof Settings)[]) {
    if (settings[name] === DEFAULTS[name]) delete written[name];
    else written[name] = String(settings[name]);
  }
  return written;
}

/** A setting within its limits. */
export function within(name: keyof Settings, written: string | number | undefined): number {
  const value = written === undefined || written === "" ? NaN : Number(written);
  if (!Number.isFinite(value)) return DEFAULTS[name];
  const { low, high, step } = LIMITS[name];
  const bounded = Math.min(high, Math.max(low, value));
  return step === 1 ? Math.round(bounded) : bounded;
}
