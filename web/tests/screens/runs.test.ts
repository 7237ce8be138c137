// Metrics of runs, their names in the URL, and the drawing that is saved.
import { describe, expect, it } from "vitest";
import type { MetricsLine } from "../../src/lib/types";
import { drawing } from "../../src/screens/runs/drawing";
import {
  bestOf,
  groupByQuantity,
  chosenOf,
  curveOf,
  metricOf,
  metricsIn,
  readNames,
  writeNames,
} from "../../src/screens/runs/metrics";

const LINES: MetricsLine[] = [
  { step: 50, values: { seconds: 3, loss: 2, "validation/loss": 2.5, exact_match: 0.1 } },
  { step: 100, values: { seconds: 6, loss: 1 } },
];

describe("metrics", () => {
  it("lists all metrics, the most important first", () => {
    const keys = metricsIn([LINES]).map((metric) => metric.key);
    expect(keys).toEqual(["loss", "validation/loss", "exact_match", "seconds"]);
  });

  it("recognises validation metrics and groups them with training", () => {
    for (const key of ["validation_loss", "validation.loss", "validation/loss"]) {
      expect(metricOf(key)).toEqual({ key, base: "loss", validation: true });
    }
    expect(groupByQuantity(metricsIn([LINES])).map((group) => group.length)).toEqual([2, 1, 1]);
  });

  it("omits metrics that a line lacks", () => {
    expect(curveOf(LINES, "validation/loss")).toEqual({ x: [50], y: [2.5] });
  });

  it("falls back to the losses", () => {
    const present = metricsIn([LINES]);
    expect(chosenOf(["missing"], present).map((metric) => metric.key)).toEqual(["loss", "validation/loss"]);
    expect(chosenOf(["seconds"], present).map((metric) => metric.key)).toEqual(["seconds"]);
    expect(chosenOf([], [])).toEqual([]);
  });

  it("finds the best value", () => {
    expect(bestOf(metricOf("validation_loss"), [3, 1, 2])).toBe(1);
    expect(bestOf(metricOf("exact_match"), [0.1, 0.9, 0.5])).toBe(0.9);
    expect(bestOf(metricOf("seconds"), [1, 2])).toBeNull();
  });
});

describe("names in the URL", () => {
  it("survive the URL", () => {
    const names = ["demo/a,b", "50% of 中文", ""];
    expect(readNames(writeNames(names))).toEqual(names);
    expect(readNames(undefined)).toEqual([]);
    expect(readNames("%zz")).toEqual(["%zz"]);
  });
});

describe("drawing", () => {
  it("shows names as text and omits values without a logarithm", () => {
    const series = [{ label: "<script>alert(1)</script>", x: [1, 2, 3], y: [0, 1, 10] }];
    const svg = drawing([{ title: "Loss & more", xLabel: "Step", series, logY: true }]);
    expect(svg).not.toContain("<script");
    expect(svg).not.toMatch(/NaN|Infinity/);
    expect(svg).toContain("Loss &#38; more");
  });

  it("draws a run with one line or none", () => {
    const series = [
      { label: "one", x: [5], y: [1] },
      { label: "none", x: [], y: [] },
    ];
    expect(drawing([{ title: "Loss", xLabel: "Step", series, logY: false }])).not.toMatch(/NaN|Infinity/);
  });
});
