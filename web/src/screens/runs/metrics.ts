// Metrics of runs: which there are, in what order, and which belong into one chart.
import type { MetricsLine } from "../../lib/types";

export interface Metric {
  /** The name in the lines of the run. */
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
  const match = /^(?:validation|valid|val)[/._ ]+(.+)$/.exec(key);
  return { key, base: (match ? match[1] : key).replaceAll(" ", "_"), validation: match !== null };
}

function rank(metric: Metric): number {
  const position = ORDER.indexOf(metric.base);
  const last = LAST.indexOf(metric.base);
  return (last >= 0 ? 1000 + last : position >= 0 ? position : 500) * 2 + Number(metric.validation);
}

/** All metrics of any of the lines, the most important first. */
export function metricsIn(runs: Iterable<readonly MetricsLine[]>): Metric[] {
  const keys = new Set<string>();
  for (const lines of runs) for (const line of lines) for (const key of Object.keys(line.values)) keys.add(key);
  return [...keys]
    .map(metricOf)
    .sort((one, other) => rank(one) - rank(other) || one.key.localeCompare(other.key));
}

/** Groups of metrics for one chart: training and validation of the same quantity. */
export function groupByQuantity(metrics: readonly Metric[]): Metric[][] {
  const groups = new Map<string, Metric[]>();
  for (const metric of metrics) groups.set(metric.base, [...(groups.get(metric.base) ?? []), metric]);
  return [...groups.values()];
}

export interface Curve {
  x: number[];
  y: number[];
}

export function curveOf(lines: readonly MetricsLine[], key: string): Curve {
  const measured = lines.filter((line) => line.values[key] !== undefined);
  return { x: measured.map((line) => line.step), y: measured.map((line) => line.values[key]) };
}

const LOWER = ["loss", "perplexity", "bits_per_character"];
const HIGHER = ["exact_match", "accuracy", "bleu", "chrf"];

/** The best value of a metric that has a better direction, else null. */
export function bestOf(metric: Metric, values: readonly number[]): number | null {
  const best = (one: number, other: number): number =>
    LOWER.includes(metric.base) ? Math.min(one, other) : Math.max(one, other);
  return [...LOWER, ...HIGHER].includes(metric.base) ? values.reduce(best) : null;
}

/** The chosen metrics that exist, or else the loss. */
export function chosenOf(keys: readonly string[], present: readonly Metric[]): Metric[] {
  const chosen = present.filter((metric) => keys.includes(metric.key));
  if (chosen.length > 0) return chosen;
  const losses = present.filter((metric) => metric.base === "loss");
  return losses.length > 0 ? losses : present.slice(0, 1);
}

const separator = ",";
export const writeNames = (names: readonly string[]): string => names.map(encodeURIComponent).join(separator);

export function readNames(text: string | undefined): string[] {
  if (!text) return [];
  return text.split(separator).map((name) => {
    try {
      return decodeURIComponent(name);
    } catch {
      return name;
    }
  });
}
