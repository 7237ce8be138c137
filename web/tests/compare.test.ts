// Differences of answers, linked tokens, colours.
import { describe, expect, it } from "vitest";
import { ink, viridis, viridisTable } from "../src/lib/colour";
import { differences } from "../src/screens/compare/difference";
import { fromText, stretches, touches, toText } from "../src/screens/compare/link";

describe("differences", () => {
  const marked = (answer: string, first: string) =>
    differences(answer, first)
      .map((part) => (part.differs ? `[${part.text}]` : part.text))
      .join("");

  it("marks what the first does not say", () => {
    expect(marked("2024-05-11", "2024-05-10")).toBe("2024-05-1[1]");
    expect(marked("abc", "abc")).toBe("abc");
    expect(marked("abc", "")).toBe("[abc]");
    expect(marked("", "abc")).toBe("[]");
    expect(marked("7月5日", "7月15日")).toBe("7月[]5日");
    expect(marked("7月25日", "7月15日")).toBe("7月[2]5日");
    expect(marked("xaybz", "ab")).toBe("[x]a[y]b[z]");
  });

  it("keeps the whole answer", () => {
    const long = "the cat sat on the mat ".repeat(20);
    const parts = differences(long, long.replace("cat", "dog"));
    expect(parts.map((part) => part.text).join("")).toBe(long);
    expect(parts.filter((part) => part.differs)).toEqual([{ text: "cat", differs: true }]);
  });
});

describe("linked tokens", () => {
  const piece = (text: string, first: number, last = first, mark = false) => ({ text, first, last, mark });
  const words = {
    name: "source" as const,
    tokens: ["a", "cat", "<eos>"],
    pieces: [piece("a", 0), piece(" cat", 1), piece("<eos>", 2, 2, true)],
  };
  const signs = {
    name: "source" as const,
    tokens: [..."a cat"],
    pieces: [..."a cat"].map((sign, k) => piece(sign, k)),
  };

  it("meet by letters", () => {
    const cat = stretches(words)[1]!;
    expect(stretches(signs).map((stretch) => touches(stretch, cat))).toEqual([
      false,
      false,
      true,
      true,
      true,
    ]);
    expect(stretches(words)[2]!.start).toBe(-1);
    expect(touches(undefined, cat)).toBe(false);
  });

  it("go into the URL and back", () => {
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
