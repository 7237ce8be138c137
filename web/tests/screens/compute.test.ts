// Addresses of numbers, the stage that shows them, and the tables of a stage.
import { describe, expect, it } from "vitest";
import { positionOf, readAddress, shortAddress } from "../../src/screens/compute/positions";
import { HOME, stageFor, windowStart } from "../../src/screens/compute/stages";
import { barOf, tablesOf, type Cell, type Frame } from "../../src/screens/compute/tables";

const frame: Frame = {
  computed: {
    address: "decoder.0.attention head 1 query[2]",
    score: "dot",
    score_formula: "",
    align: "softmax",
    align_formula: "",
    query: [1, -2],
    size: 2,
    value_size: 1,
    num_keys: 3,
    first_key: 0,
    first_dimension: 0,
    keys: [
      [1, 0],
      [0, 1],
      [2, 2],
    ],
    values: [[10], [20], [30]],
    scores: [1, -2, -3.4028234663852886e38],
    allowed: [true, true, false],
    weights: [0.75, 0.25, 0],
    context: [12.5],
    projected: false,
  },
  firstKey: 0,
  firstDimension: 0,
  token: "cat",
  keyName: (key) => `key ${key}`,
  t: (key) => key,
};
const numbers = (stage: Parameters<typeof tablesOf>[0]) =>
  tablesOf(stage, frame).map(({ rows }) => rows.map(({ cells }) => cells.map(({ value }) => value)));

describe("addresses", () => {
  it("are read from their end", () => {
    expect(readAddress("decoder.attention head 3 score[2,5]")).toEqual({
      quantity: "score",
      indices: { query: 2, key: 5, dimension: null },
      open: null,
    });
  });
  it("leave unnamed parts undefined", () => {
    expect(readAddress("attention query[2]")?.open).toBe("dimension");
    expect(readAddress("attention weight[2]")?.open).toBe("key");
    expect(readAddress("attention value[:,7]")).toMatchObject({ open: "key", indices: { dimension: 7 } });
  });
  it("of any other form are refused", () => {
    for (const address of ["attention energy", "attention bias[2,5]", "score[", ""]) expect(readAddress(address)).toBeNull();
  });
  it("are written as the server writes them", () => {
    expect(shortAddress({ quantity: "product", key: 5, dimension: 7 }, 2)).toBe("product[2,5,7]");
    expect(shortAddress({ quantity: "key", key: 5, dimension: 7 }, 2)).toBe("key[5,7]");
  });
});

it("a position has only the indices of its quantity", () => {
  expect(positionOf("score", 5, 7)).toEqual({ quantity: "score", key: 5, dimension: null });
  expect(positionOf("key", 5, null)).toBeNull();
  expect(positionOf("script", 5, 7)).toBeNull();
});

it("stageFor keeps a stage that shows the number", () => {
  expect(stageFor("weight", "values")).toBe("values");
  expect(stageFor("weight", "vectors")).toBe(HOME.weight);
  expect(windowStart(300, 16)).toBe(288);
});

describe("tables", () => {
  it("have the numbers of the tensors", () => {
    expect(numbers("vectors")).toEqual([[[1, -2]], [[1, 0], [0, 1], [2, 2]]]);
    expect(numbers("values")[1]).toEqual([[7.5], [5], [0]]);
    expect(numbers("context")).toEqual([[[7.5], [5], [0], [12.5]]]);
  });
  it("take the lowest number for minus infinity", () => {
    expect(numbers("weights")[0]?.[2]).toEqual([-Infinity, false, -Infinity, 0]);
    expect(tablesOf("scores", frame)[0]?.rows[1]?.cells[0]?.share).toBe(-1);
  });
});

describe("bars", () => {
  const bar = (share: number, scale: Cell["scale"]) => barOf({ position: null, value: 0, share, scale });
  it("begin at zero, in the middle of signed numbers", () => {
    expect(bar(1, "signed")).toEqual({ from: 0.5, to: 1 });
    expect(bar(-0.5, "signed")).toEqual({ from: 0.25, to: 0.5 });
    expect(bar(0, "signed")).toBeNull();
  });
  it("begin at the edge where no number is negative", () => {
    expect(bar(0.5, "weight")).toEqual({ from: 0, to: 0.5 });
    expect(bar(0.5, "plain")).toBeNull();
  });
});
