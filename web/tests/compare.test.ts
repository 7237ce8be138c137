// Differences of outputs, linked tokens, colours.
import { describe, expect, it } from "vitest";
import { ink, viridis, viridisTable } from "../src/lib/colour";
import { differences } from "../src/screens/compare/difference";
import { fromText, charRangesOf, touches, toText } from "../src/screens/compare/charRange";

describe("differences", () => {
  const marked = (output: string, first: string) =>
    differences(output, first)
      .map((part) => (part.differs ? `[${part.text}]` : part.text))
      .join("");

  it("marks what the reference does not have", () => {
    expect(marked("2024-05-11", "2024-05-10")).toBe("2024-05-1[1]");
    expect(marked("abc", "abc")).toBe("abc");
    expect(marked("abc", "")).toBe("[abc]");
    expect(marked("", "abc")).toBe("[]");
    expect(marked("7月5日", "7月15日")).toBe("7月[]5日");
    expect(marked("7月25日", "7月15日")).toBe("7月[2]5日");
    expect(marked("xaybz", "ab")).toBe("[x]a[y]b[z]");
  });

  it("keeps the whole output", () => {
    const long = "the cat sat on the mat ".repeat(20);
    const parts = differences(long, long.replace("cat", "dog"));
    expect(parts.map((part) => part.text).join("")).toBe(long);
    expect(parts.filter((part) => part.differs)).toEqual([{ text: "cat", differs: true }]);
  });
});

describe("linked tokens", () => {
  const label = (text: string, first: number, last = first, mark = false) => ({ text, first, last, mark });
  const words = {
    name: "source",
    kind: "tokens" as const,
    title: { en: "source", zh: "源句" },
    grid: null,
    is_stepwise: false,
    texts: [],
    unknown: [],
    tokens: ["a", "cat", "<eos>"],
    labels: [label("a", 0), label(" cat", 1), label("<eos>", 2, 2, true)],
  };
  const signs = {
    name: "source",
    kind: "tokens" as const,
    title: { en: "source", zh: "源句" },
    grid: null,
    is_stepwise: false,
    texts: [],
    unknown: [],
    tokens: [..."a cat"],
    labels: [..."a cat"].map((sign, k) => label(sign, k)),
  };

  it("match by letters", () => {
    const cat = charRangesOf(words)[1]!;
    expect(charRangesOf(signs).map((range) => touches(range, cat))).toEqual([
      false,
      false,
      true,
      true,
      true,
    ]);
    expect(charRangesOf(words)[2]!.start).toBe(-1);
    expect(touches(undefined, cat)).toBe(false);
  });

  it("survive the URL", () => {
    expect(fromText(toText({ start: 2, end: 5 }))).toEqual({ start: 2, end: 5 });
    expect(fromText("x")).toBeNull();
    expect(fromText(undefined)).toBeNull();
  });
});

it("has the colours of viridis", () => {
  expect(viridisTable).toHaveLength(768);
  expect(viridis(0)).toEqual([68, 1, 84]);
  expect(viridis(1)).toEqual([253, 231, 37]);
  expect([ink(0), ink(1)]).toEqual(["#ffffff", "#000000"]);
});
