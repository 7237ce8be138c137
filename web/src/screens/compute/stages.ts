// The stages of attention in order, and the pages of keys and dimensions in their tables.
import type { Quantity } from "./positions";

export const STAGES = ["vectors", "scores", "mask", "weights", "values", "context"] as const;
export type StageName = (typeof STAGES)[number];

/** After attention, for models with a next_token panel: from features to the probability of the next token. */
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

const QUANTITIES_OF: Record<StageName, readonly Quantity[]> = {
  vectors: ["query", "key"],
  scores: ["score"],
  mask: ["score", "allowed"],
  weights: ["score", "allowed", "weight"],
  values: ["weight", "value", "product"],
  context: ["product", "context"],
};

export const isStage = (name: string | undefined): name is StageName => STAGES.some((each) => each === name);

/** A stage that shows the quantity: the present one if it does. */
export const stageFor = (quantity: Quantity, present: StageName): StageName =>
  QUANTITIES_OF[present].includes(quantity) ? present : HOME[quantity];

export const KEYS_PER_PAGE = 32;
export const DIMENSIONS_PER_PAGE = 16;
const KEYS_PER_RESPONSE = 128;
const DIMENSIONS_PER_RESPONSE = 64;

export const windowStart = (index: number, size: number): number => Math.floor(index / size) * size;
export const firstKeyOfResponse = (index: number): number => windowStart(index, KEYS_PER_RESPONSE);
export const firstDimensionOfResponse = (index: number): number => windowStart(index, DIMENSIONS_PER_RESPONSE);
