// The settings of a swap in the URL, and which parts of two outputs differ.
import { describe, expect, it } from "vitest";
import { differences, joined, wordsOf } from "../../src/screens/swap/changes";
import { OWN, readSettings, swapRequest, writeSettings } from "../../src/screens/swap/settings";

const option = (name: string, refused = false) => ({
  name,
  formula: "",
  year: null,
  refusal: refused ? { en: "no", zh: "否" } : null,
});

describe("settings", () => {
  it("survive the URL, which omits defaults", () => {
    const settings = { ...OWN, score: "dot", temperature: 0.5 };
    const extra = writeSettings({ other: "value", mask: "causal" }, settings);
    expect(extra).toEqual({ other: "value", score: "dot", temperature: "0.5" });
    expect(readSettings(extra)).toEqual(settings);
  });
  it("that are invalid are ignored", () => {
    const settings = readSettings({ temperature: "NaN", window: "-4" });
    expect(settings).toEqual({ ...OWN, window: 0 });
    expect(readSettings({ temperature: "1e9" }).temperature).toBe(10);
  });
  it("request only offered options", () => {
    const offered = {
      scores: [option("own"), option("additive", true)],
      aligns: [option("own"), option("hard")],
      masks: [option("own")],
      positions: [option("own")],
    };
    const settings = { ...OWN, score: "additive", align: "hard", mask: "nonsense" };
    expect(swapRequest(settings, offered, "attention", -1)).toMatchObject({ score: "own", align: "hard", mask: "own" });
  });
});

describe("differences", () => {
  const marked = (first: string, second: string) =>
    differences(wordsOf(first, "en"), wordsOf(second, "en")).map((parts) =>
      joined(parts)
        .map(({ text, changed }) => (changed ? `[${text}]` : text))
        .join(""),
    );
  it("are marked on both sides", () => {
    expect(marked("the cat sat", "the dog sat")).toEqual(["the [cat] sat", "the [dog] sat"]);
    expect(marked("1947-03-15", "1947-04-15")).toEqual(["1947-[03]-15", "1947-[04]-15"]);
  });
  it("are none between equals, and all against an empty output", () => {
    expect(marked("the cat", "the cat")).toEqual(["the cat", "the cat"]);
    expect(marked("the cat", "")).toEqual(["[the cat]", ""]);
  });
});
