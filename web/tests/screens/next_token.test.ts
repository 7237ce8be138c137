// Probabilities of tokens, growth of the state, the next tokens, and the settings of Generate.
import { describe, expect, it } from "vitest";
import type { Candidate, StateGrowth, TokenPredictions } from "../../src/lib/types";
import {
  bytesText,
  DEFAULTS,
  growthOf,
  probabilityOf,
  readSettings,
  rowsOf,
  surpriseOf,
  writeSettings,
} from "../../src/screens/next_token/probabilities";

const predictions: TokenPredictions = {
  axis: "text",
  log_probs: [null, Math.log(0.5), Math.log(0.25)],
  ranks: [null, 1, 3],
  perplexity: 2.8,
  vocab_size: 16,
};
const growth: StateGrowth = {
  axis: "text",
  at_start: 8,
  allocated: [64, 64, 64],
  filled: [16, 32, 48],
  parts: [],
};
const candidate = (id: number, probability: number, rank: number): Candidate => ({
  id,
  token: String(id),
  logit: 0,
  exponential: 1,
  probability,
  rank,
});

describe("probabilities", () => {
  it("multiplies the tokens of a label, and is null for the first", () => {
    expect(probabilityOf(predictions, { text: "a", first: 1, last: 2 })).toBeCloseTo(0.125, 12);
    expect(probabilityOf(predictions, { text: "a", first: 0, last: 1 })).toBeNull();
  });

  it("has no surprise for a certain token, and the full one for equal probabilities", () => {
    expect(surpriseOf(1, 16)).toBe(0);
    expect(surpriseOf(1 / 16, 16)).toBeCloseTo(1, 12);
    expect(surpriseOf(0, 16)).toBe(1);
    expect(surpriseOf(null, 16)).toBe(0);
  });
});

describe("the state", () => {
  it("is constant, grows, or has grown", () => {
    expect(growthOf(growth)).toBe("grows");
    expect(growthOf({ ...growth, filled: [96, 96, 96] })).toBe("constant");
    expect(growthOf({ ...growth, filled: [16, 32, 32] })).toBe("window");
  });

  it("is printed in readable bytes", () => {
    expect(bytesText(1584, "bytes")).toBe("1,584 bytes");
    expect(bytesText(250_000, "bytes")).toBe("250 kB");
    expect(bytesText(4_140_000, "bytes")).toBe("4.1 MB");
  });
});

describe("the next tokens", () => {
  const next = { position: 0, highest: 0, total: 2, entropy: 1, vocab_size: 16, address: "", snippet: "" };
  const candidates = [candidate(4, 0.5, 1), candidate(7, 0.2, 2)];

  it("marks the true token among the best, or appends it", () => {
    expect(rowsOf({ ...next, candidates, true: candidates[1] ?? null }).map((row) => row.isTrue)).toEqual([false, true]);
    const rows = rowsOf({ ...next, candidates, true: candidate(9, 0.01, 12) });
    expect(rows.map((row) => [row.id, row.isTrue])).toEqual([
      [4, false],
      [7, false],
      [9, true],
    ]);
    expect(rowsOf({ ...next, candidates, true: null })).toHaveLength(2);
  });
});

describe("settings of Generate", () => {
  it("are in the address if they differ from the defaults", () => {
    const settings = { ...DEFAULTS, tokens: 5, topP: 0.5 };
    const written = writeSettings({ stage: "x" }, settings);
    expect(written).toEqual({ stage: "x", tokens: "5", topP: "0.5" });
    expect(readSettings(written)).toEqual(settings);
    expect(writeSettings(written, DEFAULTS)).toEqual({ stage: "x" });
  });

  it("stay within the limits of the server", () => {
    const settings = readSettings({ tokens: "9999", temperature: "-3", topP: "x", seed: "2.6" });
    expect(settings).toEqual({ tokens: 200, temperature: 0, topP: DEFAULTS.topP, seed: 3 });
  });
});
