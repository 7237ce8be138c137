// The stages of the pipeline in order, and the window of keys and dimensions that a stage's tables show.
import type { Quantity } from "./positions";

export const STAGES = ["vectors", "scores", "mask", "weights", "values", "context"] as const;
export type StageName = (typeof STAGES)[number];

/** Behind attention, and only in a language model: from features to the probability of the next token. */
export const READOUT = "readout";
export type Step = StageName | typeof READOUT;

export const HOME: Record<Quantity, StageName> = {
  query: "vectors",
  key: "vectors",
  score: "scores",
  allowed: "mask",
  weight: "weights",
  value: "values",
  product: "values",
  context: "context",
};

const SHOWN: Record<StageName, readonly Quantity[]> = {
  vectors: ["query", "key"],
  scores: ["score"],
  mask: ["score", "allowed"],
  weights: ["score", "allowed", "weight"],
  values: ["weight", "value", "product"],
  context: ["product", "context"],
};

export const isStage = (name: string | undefined): name is StageName => STAGES.some((each) => each === name);

/** The stage to stand on so that a number can be seen: the present one where it shows it. */
export const stageFor = (quantity: Quantity, present: StageName): StageName =>
  SHOWN[present].includes(quantity) ? present : HOME[quantity];

export const KEYS_SHOWN = 32;
export const DIMENSIONS_SHOWN = 16;
const KEYS_SENT = 128;
const DIMENSIONS_SENT = 64;

export const windowStart = (index: number, shown: number): number => Math.floor(index / shown) * shown;
export const keysSentFrom = (index: number): number => windowStart(index, KEYS_SENT);
export const dimensionsSentFrom = (index: number): number => windowStart(index, DIMENSIONS_SENT);
