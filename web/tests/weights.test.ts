// Weights: merging, pooling, differences; what is printed is exact, what is drawn are bytes.
import { describe, expect, it } from "vitest";
import { ExactRows } from "../src/lib/exactRows.svelte";
import {
  alike,
  at,
  complete,
  difference,
  fromNumbers,
  merge,
  pool,
  numbersOf,
  poolWindow,
  shade,
  strongestKey,
  strongestQuery,
} from "../src/lib/weights";

const one = (k: number) => ({ first: k, last: k });
const value = () => null;

describe("merge", () => {
  const weights = fromNumbers([
    [0.5, 0.25, 0.25, 0],
    [0.25, 0.25, 0.25, 0.25],
    [0, 0, 0, 1],
  ]);

  it("is the same if every token is a label", () => {
    expect(merge(weights, [0, 1, 2].map(one), [0, 1, 2, 3].map(one))).toBe(weights);
  });

  it("adds over the keys of a label and averages over its queries", () => {
    const merged = merge(
      weights,
      [{ first: 0, last: 1 }, one(2)],
      [
        { first: 0, last: 1 },
        { first: 2, last: 3 },
      ],
    );
    expect([merged.queries, merged.keys]).toEqual([2, 2]);
    const values = [0, 1].map((i) => [0, 1].map((j) => at(merged, i, j)));
    const expected = [
      [0.625, 0.375],
      [0, 1],
    ];
    expect(values).toEqual(expected);
  });

  it("omits hidden tokens and accepts empty sides", () => {
    expect(at(merge(weights, [one(2)], [one(3)]), 0, 0)).toBeCloseTo(1, 5);
    expect(merge(weights, [], [one(0)]).data).toHaveLength(0);
  });
});

describe("pool", () => {
  it("keeps every peak", () => {
    const size = 257;
    for (const peak of [0, 100, 128, 256]) {
      const data = new Uint8Array(size * size);
      data[peak * size + peak] = 255;
      const pooled = pool({ queries: size, keys: size, high: 1, data, value }, 40, 30);
      expect([pooled.queries, pooled.keys]).toEqual([40, 30]);
      expect(Math.max(...pooled.data)).toBe(255);
    }
  });

  it("is unchanged where it fits", () => {
    const weights = fromNumbers([[0.1, 0.9]]);
    expect(pool(weights, 10, 10)).toBe(weights);
  });

  it("pools the maximum of each bin", () => {
    const weights = { queries: 2, keys: 4, high: 1, data: Uint8Array.from([1, 9, 3, 4, 5, 6, 8, 7]), value };
    expect([...pool(weights, 1, 2).data]).toEqual([9, 8]);
  });

  it("keeps the strongest difference on both sides of zero", () => {
    const weights = { queries: 1, keys: 4, high: 1, data: Uint8Array.from([128, 10, 128, 240]), value };
    const window = { top: 0, left: 0, rows: 1, columns: 4 };
    expect([...poolWindow(weights, window, 1, 2, 128)]).toEqual([10, 240]);
  });
});

describe("difference", () => {
  it("is signed and 0 where nothing changed", () => {
    const changes = difference(fromNumbers([[1, 0, 0.5]]), fromNumbers([[0.5, 0.5, 0.5]]));
    expect([0, 1, 2].map((j) => at(changes, 0, j))).toEqual([0.5, -0.5, 0]);
    expect([...changes.data]).toEqual([255, 1, 128]);
  });
});

it("finds the strongest key and query", () => {
  const weights = fromNumbers([
    [0.2, 0.8],
    [0.9, 0.1],
  ]);
  expect([strongestKey(weights, 0), strongestQuery(weights, 0)]).toEqual([1, 1]);
});

describe("alike", () => {
  it("puts two maps on one scale", () => {
    const [one, other] = [fromNumbers([[0.5, 0]]), fromNumbers([[0.5, 1]])];
    const [low, high] = alike(one, other);
    expect(high).toBe(other);
    expect(low.high).toBe(1);
    expect(at(low, 0, 0)).toBe(0.5);
    expect([...low.data]).toEqual([...other.data.map((byte, k) => (k === 0 ? byte : 0))]);
  });
});

describe("exact numbers", () => {
  const row = [0.16610591, 0.5, 0.33389409];
  const single = Float32Array.from(row);

  it("are no steps of a colour", () => {
    const weights = fromNumbers([row]);
    expect(row.map((_, j) => at(weights, 0, j))).toEqual(row);
    expect(at(merge(weights, [one(0)], [{ first: 0, last: 1 }]), 0, 0)).toBe(0.16610591 + 0.5);
  });

  it("of a large map are requested by rows and are null before", async () => {
    const requests: number[][] = [];
    const rows = new ExactRows(4, 3, async (first, count) => {
      requests.push([first, count]);
      return Array.from({ length: count }, () => single);
    });
    const data = new Uint8Array(12).fill(85);
    const large = { queries: 4, keys: 3, high: 0.5, data, value: (i: number, j: number) => rows.get(i)?.[j] ?? null };
    const weights = { ...large, need: rows.need, all: rows.all };
    const merged = merge(weights, [one(1), one(2), one(3)], [one(0), { first: 1, last: 2 }]);
    expect(at(merged, 0, 1)).toBeNull();
    expect(shade(merged, 0, 1)).toBeCloseTo(1 / 3, 2);
    merged.need?.(0, 1);
    merged.need?.(0, 1);
    await new Promise((resolve) => setTimeout(resolve));
    expect(requests).toEqual([[1, 2]]);
    expect(at(merged, 0, 1)).toBe(single[1]! + single[2]!);
    expect(at(merged, 2, 1)).toBeNull();
    const doubled = difference(merged, merged);
    expect(numbersOf(await complete(doubled)).flat()).toEqual([0, 0, 0, 0, 0, 0]);
    expect(numbersOf(await complete(merged))[2]).toEqual([single[0], single[1]! + single[2]!]);
  });
});
