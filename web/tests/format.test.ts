// Numbers and cells as text.
import { expect, it } from "vitest";
import { csvCell } from "../src/lib/exports";
import { escaped } from "../src/lib/figure";
import { bigInteger, exact, fixed, number, percent, wholePercent, withSign } from "../src/lib/format";

it("writes numbers", () => {
  expect(number(0.12345)).toBe("0.123");
  expect(number(-0.00001)).toBe("-1.00e-5");
  expect(number(-0)).toBe("0.000");
  expect(number(12, 0)).toBe("12");
  expect(number(Infinity)).toBe("∞");
  expect(number(NaN)).toBe("NaN");
});

it("writes float32 with enough digits to parse them", () => {
  for (const value of Float32Array.from([0.1, 1 / 3, 1e-9, 123456.78, -2])) {
    expect(Math.abs(Number(exact(value)) - value)).toBeLessThanOrEqual(Math.abs(value) * 1e-7);
  }
  expect(exact(0)).toBe("0");
});

it("writes shares", () => {
  expect(percent(0.6249)).toBe("62 %");
  expect(percent(0.031)).toBe("3.1 %");
  expect(percent(1)).toBe("100 %");
  expect(percent(0)).toBe("0 %");
  expect(percent(1e-5)).toBe("< 0.1 %");
});

it("rounds a number in the same way everywhere", () => {
  expect([fixed(0.16610591, 2), percent(0.16610591), wholePercent(0.16610591)]).toEqual(["0.17", "17 %", "17"]);
  expect(fixed(-0.001, 2)).toBe("0.00");
  for (let k = 0; k <= 4000; k += 1) {
    // among them are numbers such as 1.115, whose product with 100 is rounded up
    const value = k / 2000;
    expect(Number(wholePercent(value))).toBe(Math.round(Number(fixed(value, 2)) * 100));
    if (value >= 0.0995) expect(percent(value)).toBe(`${wholePercent(value)} %`);
  }
});

it("signs differences", () => {
  expect([withSign("0.25"), withSign("-0.25"), withSign("0 %"), withSign("< 0.1 %")]).toEqual(["+0.25", "-0.25", "0 %", "< 0.1 %"]);
});

it("groups digits", () => expect(bigInteger(1234567)).toBe("1,234,567"));

it("quotes cells, formulas first of all", () => {
  expect(csvCell('a "b", c')).toBe('"a ""b"", c"');
  expect(csvCell("=1+1")).toBe("'=1+1");
  expect(csvCell(" ")).toBe('" "');
  expect(csvCell(-0.5)).toBe("-0.5");
  expect(csvCell(null)).toBe("");
});

it("escapes what goes into an SVG", () =>
  expect(escaped("<script>&'\"")).toBe("&#60;script&#62;&#38;&#39;&#34;"));
