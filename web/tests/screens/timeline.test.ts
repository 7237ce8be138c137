// The timeline's layout: nothing overlaps at any width, years stay in order, arrow keys find their way.
import { describe, expect, it } from "vitest";
import type { Milestone } from "../../src/lib/types";
import { swapSetting } from "../../src/screens/timeline/command";
import { layOut, MARK, neighbour, ROW, type PositionedItem } from "../../src/screens/timeline/layout";

const LANES = ["system", "score", "alignment"];
const milestone = (year: number, family: string, title: string): Milestone => ({
  key: `${family}/${title}`,
  year,
  title: { en: title, zh: title },
  family,
  family_title: { en: family, zh: family },
  lane: LANES.indexOf(family),
  is_system: family === "system",
  command: null,
  explanation: { en: "", zh: "" },
  formula: "",
  paper: "",
  file: "",
  figure: null,
  model: null,
  parts: null,
  lesson: null,
});
const ITEMS = [
  milestone(1964, "score", "gaussian"),
  milestone(2014, "system", "RNN encoder-decoder"),
  milestone(2014, "system", "RNNsearch (Bahdanau)"),
  milestone(2015, "system", "Luong"),
  milestone(2015, "score", "dot"),
  milestone(2015, "score", "general"),
  milestone(2017, "score", "scaled dot"),
  milestone(2017, "system", "Transformer"),
  milestone(2024, "score", "the very last of all the scores"),
];
const widthOf = ({ title }: Milestone): number => 7 * title.en.length;

function boxOf({ x, y, left, width }: PositionedItem): { left: number; right: number; top: number } {
  const label = MARK + 6 + width;
  return { left: left ? x - label : x - MARK, right: left ? x + MARK : x + label, top: y };
}

describe("layOut", () => {
  it.each([760, 960, 1280])("keeps marks and labels apart and inside %i px", (width) => {
    const picture = layOut(ITEMS, 112, width, widthOf);
    const boxes = picture.lanes.flatMap((lane) => lane.placed.map(boxOf));
    expect(boxes).toHaveLength(ITEMS.length);
    for (const [index, one] of boxes.entries()) {
      expect(one.left).toBeGreaterThanOrEqual(100);
      expect(one.right).toBeLessThanOrEqual(width);
      for (const other of boxes.slice(index + 1)) {
        const isApart = one.right <= other.left || other.right <= one.left || Math.abs(one.top - other.top) >= ROW;
        expect(isApart).toBe(true);
      }
    }
  });

  it("keeps years in order and marks ranges that omit years", () => {
    const { ticks, breaks } = layOut(ITEMS, 112, 960, widthOf);
    expect(ticks.map((tick) => tick.year)).toEqual([1964, 2014, 2015, 2017, 2024]);
    expect(ticks.every((tick, index) => index === 0 || tick.x > ticks[index - 1].x)).toBe(true);
    expect(breaks).toHaveLength(2);
  });
});

describe("neighbour", () => {
  const picture = layOut(ITEMS, 112, 960, widthOf);

  it("moves along a lane and across to the nearest", () => {
    expect(neighbour(picture, "system/Luong", "ArrowRight")).toBe("system/Transformer");
    expect(neighbour(picture, "system/Transformer", "ArrowDown")).toBe("score/scaled dot");
    expect(neighbour(picture, "score/dot", "Home")).toBe("score/gaussian");
    expect(neighbour(picture, "system/Luong", "ArrowUp")).toBeNull();
  });
});

describe("the setting of Swap", () => {
  it("names a mechanism, and no system", () => {
    expect(swapSetting({ ...ITEMS[1], key: "system/rnn_encoder_decoder" })).toBeNull();
    expect(swapSetting(milestone(2016, "alignment", "sparsemax"))).toEqual({ align: "sparsemax" });
  });
});
