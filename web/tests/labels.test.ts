// Tokens as they are shown.
import { expect, it } from "vitest";
import { clean, isSpace, positionOf, displayTokens } from "../src/lib/labels";
import { charRangesOf } from "../src/screens/compare/charRange";
import { tokenName } from "../src/screens/compute/tokens";

const axis = {
  name: "source",
  kind: "tokens" as const,
  title: { en: "source", zh: "源句" },
  grid: null,
  is_stepwise: false,
  texts: [],
  unknown: [],
  tokens: ["ç", "<0xE7>", "<0x8C>", "<0xAB>", "<eos>"],
  labels: [
    { text: "ç", first: 0, last: 0, mark: false },
    { text: "猫", first: 1, last: 3, mark: false },
    { text: "<eos>", first: 4, last: 4, mark: true },
  ],
};

it("merges bytes and hides marks", () => {
  expect(displayTokens(axis, false)).toEqual([
    { text: "ç", first: 0, last: 0 },
    { text: "猫", first: 1, last: 3 },
  ]);
});

it("shows every token raw", () => {
  expect(displayTokens(axis, true).map((token) => token.text)).toEqual(axis.tokens);
});

it("finds raw indices", () => {
  expect(positionOf(displayTokens(axis, false), 2)).toBe(1);
  expect(positionOf(displayTokens(axis, false), 4)).toBe(-1);
  expect(positionOf(displayTokens(axis, false), null)).toBe(-1);
});

it("makes invisible characters visible and leaves others unchanged", () => {
  expect(clean(" ")).toBe("␣");
  expect(clean("a\u200bb")).toBe("a⟨200B⟩b");
  expect(clean("\u202etxet")).toBe("⟨202E⟩txet");
  expect(clean("\u0000")).toBe("⟨0000⟩");
  expect(clean("\n")).toBe("⏎");
  expect(clean("\u0301")).toBe("◌\u0301");
  expect(clean("")).toBe("∅");
  expect(clean("<script>")).toBe("<script>");
  expect(clean("שלום")).toBe("שלום");
  expect(clean("👩")).toBe("👩");
});

it("shows a tokeniser's space as a sign, but raw unchanged", () => {
  const spaced = { ...axis, tokens: ["▁"], labels: [{ text: "▁", first: 0, last: 0, mark: false }] };
  expect(displayTokens(spaced, false)[0]?.text).toBe("␣");
  expect(displayTokens(spaced, true)[0]?.text).toBe("▁");
  expect(["␣", "▁", "a"].map(isSpace)).toEqual([true, true, false]);
});

it("shows what the user wrote in place of an unknown token, and <unk> raw", () => {
  const labels = ["a", "<unk>", "<unk>"].map((text, k) => ({ text, first: k, last: k, mark: false }));
  const typed = { ...axis, tokens: ["a", "<unk>", "<unk>"], labels, texts: ["a", " 猫", "\u200b"], unknown: [1, 2] };
  expect(displayTokens(typed, false)).toEqual([
    { text: "a", first: 0, last: 0 },
    { text: "猫", first: 1, last: 1, unknown: true },
    { text: "⟨200B⟩", first: 2, last: 2, unknown: true },
  ]);
  expect(displayTokens(typed, true)[1]?.text).toBe("<unk>");
  expect([tokenName(typed, 0), tokenName(typed, 1)]).toEqual(["a", "猫"]);
  // of a predicted token nobody wrote a text
  expect(displayTokens({ ...typed, texts: [] }, false)[1]).toEqual({ text: "<unk>", first: 1, last: 1 });
  expect(charRangesOf(typed)[2]).toEqual({ start: 2, end: 3 });
});
