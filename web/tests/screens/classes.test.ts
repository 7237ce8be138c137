// Weights of words in rows of attention.
import { expect, it } from "vitest";
import { chosenRow, weightOf } from "../../src/screens/classes/rows";

const ROWS = [Float32Array.of(0.75, 0.25, 0), Float32Array.of(0.25, 0.25, 0.5)];

it("a word has the weight of its tokens, in one row or in the mean", () => {
  expect(weightOf(ROWS, 0, { first: 0, last: 0 })).toBe(0.75);
  expect(weightOf(ROWS, 1, { first: 1, last: 2 })).toBe(0.75);
  expect(weightOf(ROWS, null, { first: 0, last: 0 })).toBe(0.5);
  expect(weightOf([], null, { first: 0, last: 0 })).toBe(0);
});

it("a missing row is null", () => {
  expect([chosenRow(1, 2), chosenRow(2, 2), chosenRow(null, 2)]).toEqual([1, null, null]);
});
