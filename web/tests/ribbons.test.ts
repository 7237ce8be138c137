// The layout of ribbons: the largest font that fits, nothing outside, a ribbon for each visible weight.
import { describe, expect, it } from "vitest";
import { layOutRibbons, ribbons } from "../src/lib/ribbons";
import { fromNumbers } from "../src/lib/weights";

const measure = (text: string, size: number) => text.length * size * 0.6;
const tokens = (text: string) => [...text].map((sign, k) => ({ text: sign, first: k, last: k }));

describe("layOutRibbons", () => {
  it.each([
    [1200, 22],
    [440, 18],
    [390, 15],
  ])("sets letters in %i px at %i px", (room, size) => {
    const layout = layOutRibbons(tokens("1904年6月4日"), tokens("Saturday, 4 June 1904"), room, 320, measure);
    expect([layout.across, layout.size, layout.width, layout.height]).toEqual([true, size, room, 320]);
    for (const { x, width } of [...layout.keys, ...layout.queries]) {
      expect(x - width / 2).toBeGreaterThanOrEqual(0);
      expect(x + width / 2).toBeLessThanOrEqual(room);
    }
  });

  it("uses columns if a row does not fit", () => {
    const layout = layOutRibbons(tokens("1904"), tokens("Saturday, 4 June 1904 – Sunday"), 300, 320, measure);
    expect(layout.across).toBe(false);
    expect((layout.queries[0]?.x ?? 0) - (layout.keys[0]?.x ?? 0)).toBeGreaterThan(200);
  });
});

it("draws visible weights, the thickest last", () => {
  const layout = layOutRibbons(tokens("a"), tokens("xyz"), 400, 320, measure);
  const weights = fromNumbers([[0.8, 0, 0.2]]);
  expect(ribbons(weights, layout).map((band) => band.column)).toEqual([2, 0]);
});
