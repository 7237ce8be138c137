// Titles of metrics; one without a text keeps its name.
import { t } from "../texts/runs";
import type { Metric } from "./metrics";

const TRANSLATED = [
  "loss",
  "perplexity",
  "bits_per_character",
  "exact_match",
  "accuracy",
  "bleu",
  "chrf",
  "learning_rate",
  "tokens_per_second",
  "seconds",
  "epoch",
  "gradient_norm",
] as const;

export function baseName(metric: Metric): string {
  const key = TRANSLATED.find((name) => name === metric.base);
  return key ? t(key) : metric.base.replaceAll(/[_/.]/g, " ");
}

/** "Validation loss", "验证损失"; an English word in the middle of a phrase is lower case, an acronym is not. */
export function metricName(metric: Metric): string {
  const base = baseName(metric);
  if (!metric.validation) return base;
  const isWord = /^[A-Z][a-z]/.test(base);
  return t("validationOf", { metric: isWord ? base[0].toLowerCase() + base.slice(1) : base });
}
