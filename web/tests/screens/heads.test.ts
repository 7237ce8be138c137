// The order of heads.
import { expect, it } from "vitest";
import { grouped, orderOf } from "../../src/screens/heads/order";

const card = (queries: "source" | "target", layer: string, head: number, entropy: number) => ({
  site: `${layer}.attention`,
  queries,
  keys: "source",
  layer,
  head,
  entropy,
  distance: 0,
  diagonal: 0,
  peak: 0,
});
const cards = [card("source", "encoder.0", 0, 2), card("source", "encoder.0", 1, 1), card("source", "encoder.1", 0, 3)];

it("by layer, a row is a layer", () => {
  const [group] = grouped(cards, "layer", false);
  expect(group?.rows.map((row) => [row.layer, row.tiles.map((tile) => tile.position)])).toEqual([
    ["encoder.0", [0, 1]],
    ["encoder.1", [2]],
  ]);
});

it("by a measure, layers mix on the same axes, and thumbnails keep their position", () => {
  const groups = grouped([...cards, card("target", "decoder.0", 0, 0)], "entropy", true);
  expect(groups.map((group) => group.rows.flatMap((row) => row.tiles.map((tile) => tile.position)))).toEqual([[2, 0, 1], [3]]);
});

it("an unknown order is by layer", () => {
  expect(orderOf("script")).toBe("layer");
  expect(orderOf("peak")).toBe("peak");
});
