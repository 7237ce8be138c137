// Paragraphs and controls of lessons.
import { describe, expect, it } from "vitest";
import { splitParagraph } from "../../src/screens/learn/richText";
import { fitted, readSettings, writeSettings } from "../../src/screens/learn/settings";

describe("splitParagraph", () => {
  it("finds code and formulas", () => {
    expect(splitParagraph("a `b$` and $c_1$.")).toEqual([
      { kind: "text", text: "a " },
      { kind: "code", text: "b$" },
      { kind: "text", text: " and " },
      { kind: "formula", text: "c_1" },
      { kind: "text", text: "." },
    ]);
  });

  it("ignores a single sign", () => {
    expect(splitParagraph("5 $ and <b>")).toEqual([{ kind: "text", text: "5 $ and <b>" }]);
  });
});

describe("settings", () => {
  const control = { name: "width", label: { en: "", zh: "" }, low: 0.1, high: 2, step: 0.1, value: 1 };

  it("survive the URL; invalid ones are omitted", () => {
    expect(readSettings(writeSettings({ width: 0.5, points: -3 }))).toEqual({ width: 0.5, points: -3 });
    expect(readSettings("width:abc,:3,points:,x")).toEqual({});
    expect(readSettings(undefined)).toEqual({});
  });

  it("stay on the grid and within the ends", () => {
    expect(fitted(control, 0.30000000000000004)).toBe(0.3);
    expect(fitted(control, 99)).toBe(2);
    expect(fitted(control, -1)).toBe(0.1);
    expect(fitted(control, Number.NaN)).toBe(1);
  });
});
