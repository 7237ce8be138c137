// Metrics of runs: which there are, in what order, and which belong into one chart.
import type { Line } from "../../lib/types";

export interface Metric {
  /** As it stands in the run's lines. */
  key: string;
  /** Without "validation". */
  base: string;
  validation: boolean;
}

const ORDER = [
  "loss",
  "perplexity",
  "bits_per_character",
  "exact_match",
  "accuracy",
  "bleu",
  "chrf",
  "learning_rate",
  "tokens_per_second",
];
const LAST = ["seconds", "epoch"];

export function metricOf(key: string): Metric {
  const found = /^(?:validation|valid|val)[/._ ]+(.+)$/.exec(key);
  return { key, base: (found ? found[1] : key).replaceAll(" ", "_"), validation: found !== null };
}

function rank(metric: Metric): number {
  const position = ORDER.indexOf(metric.base);
  const last = LAST.indexOf(metric.base);
  return (last >= 0 ? 1000 + last : position >= 0 ? position : 500) * 2 + Number(metric.validation);
}

/** All metrics that any of the lines has, the telling ones first. */
export function metricsIn(runs: Iterable<readonly Line[]>): Metric[] {
  const keys = new Set<string>();
  for (const lines of runs) for (const line of lines) for (const key of Object.keys(line.values)) keys.add(key);
  return [...keys]
    .map(metricOf)
    .sort((one, other) => rank(one) - rank(other) || one.key.localeCompare(other.key));
}

/** One group a chart: training and validation of the same quantity lie over each other. */
export function charted(metrics: readonly Metric[]): Metric[][] {
  const groups = new Map<string, Metric[]>();
  for (const metric of metrics) groups.set(metric.base, [...(groups.get(metric.base) ?? []), metric]);
  return [...groups.values()];
}

export interface Curve {
  x: number[];
  y: number[];
}

export function curveOf(lines: readonly Line[], key: string): Curve {
  const measured = lines.filter((line) => line.values[key] !== undefined);
  return { x: measured.map((line) => line.step), y: measured.map((line) => line.values[key]) };
}

const LOWER = ["loss", "perplexity", "bits_per_character"];
const HIGHER = ["exact_match", "accuracy", "bleu", "chrf"];

/** The best value, where one end of the scale is the good one. */
export function bestOf(metric: Metric, values: readonly number[]): number | null {
  const best = (one: number, other: number): number =>
    LOWER.includes(metric.base) ? Math.min(one, other) : Math.max(one, other);
  return [...LOWER, ...HIGHER].includes(metric.base) ? values.reduce(best) : null;
}

/** The chosen metrics that are there; the loss where none is. */
export function chosenOf(written: readonly string[], present: readonly Metric[]): Metric[] {
  const chosen = present.filter((metric) => written.includes(metric.key));
  if (chosen.length > 0) return chosen;
  const losses = present.filter((metric) => metric.base === "loss");
  return losses.length > 0 ? losses : present.slice(0, 1);
}

const separator = ",";
export const writeNames = (names: readonly string[]): string => names.map(encodeURIComponent).join(separator);

export function readNames(written: string | undefined): string[] {
  if (!written) return [];
  return written.split(separator).map((name) => {
    try {
      return decodeURIComponent(name);
    } catch {
      return name;
    }
  });
}
