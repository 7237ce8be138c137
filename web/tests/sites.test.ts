// Which site and axis a screen shows.
import { expect, it, vi } from "vitest";
import type { Inspection, Site } from "../src/lib/types";

vi.stubGlobal("navigator", { language: "en" });
const { axisOf, axisTitle, hasScores, isCross, siteOf } = await import("../src/lib/sites");

const site = (path: string, queries: string, keys: string, has_scores = true): Site => ({
  path,
  layer: path,
  heads: 1,
  queries,
  keys,
  score: null,
  align: null,
  is_causal: false,
  is_stepwise: false,
  has_scores,
});
const SITES = [site("self", "a", "a"), site("cross", "b", "a"), site("alignment", "b", "a", false)];
const inspection = {
  sites: SITES,
  axes: [{ name: "a", kind: "tokens", title: { en: "A", zh: "甲" }, tokens: ["x"], labels: [], texts: [], unknown: [], grid: null, is_stepwise: false }],
} as unknown as Inspection;

it("prefers the chosen site, then the model's own alignment, then one between two axes", () => {
  expect(siteOf(inspection, "self")?.path).toBe("self");
  expect(siteOf(inspection, "nowhere")?.path).toBe("alignment");
  expect(siteOf(inspection, null, hasScores)?.path).toBe("cross");
  expect(siteOf({ ...inspection, sites: [] }, null)).toBeNull();
  expect(SITES.map(isCross)).toEqual([false, true, true]);
});

it("has an empty axis for an unknown name", () => {
  expect(axisTitle(inspection, "a")).toBe("A");
  expect(axisOf(inspection, "z").tokens).toEqual([]);
});
