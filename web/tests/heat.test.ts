// The layout of a heat map: one long label of a column does not turn the others.
import { expect, it } from "vitest";
import { matrixSvg } from "../src/lib/figure";
import { isTurned, layOut } from "../src/lib/heat";
import { fromNumbers } from "../src/lib/weights";

const measure = (text: string) => text.length * 8;
const digits = [..."20310503", "<bos>"];

it("leaves room for the labels that are turned, and only for them", () => {
  const layout = layOut(320, ["a"], digits, false, measure);
  const width = layout.plot.width / digits.length;
  expect(digits.filter((label) => isTurned(measure(label), width))).toEqual(["<bos>"]);
  expect(layout.plot.top).toBe(measure("<bos>") + 8);
  expect(layOut(320, ["a"], digits.slice(0, 8), false, measure).plot.top).toBe(24);
});

it("turns the same labels in an SVG", () => {
  const columns = digits.map((text, k) => ({ text, first: k, last: k }));
  const svg = matrixSvg(fromNumbers([digits.map(() => 0.5)]), [{ text: "a", first: 0, last: 0 }], columns, "title");
  expect(svg.match(/rotate\(-90\)">[^<]*/g)).toEqual(['rotate(-90)">&#60;bos&#62;']);
});
