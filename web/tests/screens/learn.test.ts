// Paragraphs and controls of lessons, runs of experiments, and the search.
import { describe, expect, it, vi } from "vitest";
import { splitParagraph } from "../../src/screens/learn/richText";
import type { LessonCard } from "../../src/lib/types";
import { fitted, readSettings, writeSettings } from "../../src/screens/learn/settings";

vi.stubGlobal("navigator", { language: "en" });
const { changedSettings, duration, isActive, matching, runWith } = await import("../../src/screens/learn/experiments");
const { language } = await import("../../src/lib/language.svelte");

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

describe("runs of an experiment", () => {
  const label = { en: "", zh: "" };
  const controls = [
    { name: "seed", label, low: 0, high: 9999, step: 1, value: 0 },
    { name: "noise", label, low: 0.125, high: 1, step: 0.025, value: 0.5 },
  ];
  const run = (seed: number, noise: number) =>
    ({ settings: { seed, noise }, state: "done", outcome: "undecided", seconds: 1 }) as const;

  it("have one address: defaults and unknown names are left out", () => {
    expect(changedSettings(controls, { seed: 0, noise: 0.5, other: 3 })).toEqual({});
    expect(changedSettings(controls, { noise: 0.7000001, seed: 3 })).toEqual({ seed: 3, noise: 0.7 });
    expect(changedSettings(controls, { seed: 123456 })).toEqual({ seed: 9999 });
  });

  it("are found by their settings", () => {
    const runs = [run(0, 0.5), run(1, 0.5)];
    expect(runWith(runs, controls, {})).toBe(runs[0]);
    expect(runWith(runs, controls, { seed: 1 })).toBe(runs[1]);
    expect(runWith(runs, controls, { seed: 1, noise: 0.6 })).toBeNull();
  });

  it("are active until they end", () => {
    const states = ["idle", "waiting", "running", "stopping", "done", "failed"] as const;
    expect(states.filter((state) => isActive({ state }))).toEqual(["waiting", "running", "stopping"]);
  });

  it("have durations in the language of the page", () => {
    expect([0.04, 9.94, 9.96, 59.4, 59.6, 185].map(duration)).toEqual([
      "0.0 s", "9.9 s", "10 s", "59 s", "1 min 0 s", "3 min 5 s",
    ]);
    language.now = "zh";
    expect(duration(185)).toBe("3 分 5 秒");
    language.now = "en";
  });
});

describe("the search", () => {
  const card = (name: string, number: string | null, en: string, zh: string): LessonCard => ({
    name,
    number,
    kind: number ? "experiment" : "lesson",
    title: { en, zh },
    summary: { en: `About ${en}.`, zh: `关于${zh}。` },
  });
  const cards = [card("cues", null, "Cues", "提示"), card("scaling", "G2", "Scaling", "缩放"), card("span", "G12", "Span", "跨度")];
  const names = (text: string) => matching(cards, text).map((one) => one.name);

  it("finds every word, in number, title or summary, in either language", () => {
    expect(names("")).toEqual(["cues", "scaling", "span"]);
    expect(names(" g2 ")).toEqual(["scaling"]);
    expect(names("about SPAN")).toEqual(["span"]);
    expect(names("缩放")).toEqual(["scaling"]);
    expect(names("span 缩放")).toEqual([]);
  });
});
