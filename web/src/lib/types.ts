// Short names of the API's types, which are generated from the server's schema into schema.ts.
import type { components } from "./schema";

type Schemas = components["schemas"];
type Defaulted<T, K extends keyof T> = Omit<T, K> & Partial<Pick<T, K>>;

export type LocalizedText = Schemas["LocalizedText"];
export type State = Schemas["State"];
export type ModelCard = Schemas["ModelCard"];
export type Quality = Schemas["ModelQuality"];
export type Bucket = Schemas["QualityBucket"];
export type Preparing = Schemas["Preparing"];

export type InspectionRequest = Defaulted<Schemas["InspectionRequest"], "output">;
export type Inspection = Schemas["InspectionMessage"];
export type TokenLabel = Schemas["TokenLabel"];
export type Axis = Schemas["InspectionAxis"];
export type Site = Schemas["InspectionSite"];

export type TokenPredictions = Schemas["TokenPredictions"];
export type StateGrowth = Schemas["StateGrowth"];
export type Candidate = Schemas["Candidate"];
export type NextTokens = Schemas["NextTokens"];
export type GenerateRequest = Defaulted<
  Schemas["GenerateRequest"],
  "max_tokens" | "temperature" | "top_p" | "seed"
>;
export type GenerateAnswer = Schemas["GenerateAnswer"];
export type ClassProbabilities = Schemas["ClassProbabilities"];

export type Computed = Schemas["Computed"];
export type Input = Schemas["Input"];
export type NumberAnswer = Schemas["Number"];
export type Quantity = "query" | "key" | "value" | "score" | "allowed" | "weight" | "product" | "context";
export type Option = Schemas["Option"];
export type SwapOptions = Schemas["SwapOptions"];
export type SwapRequest = { site: string } & Partial<Schemas["SwapRequest"]>;
export type Outcome = Schemas["Outcome"];
export type Swapped = Schemas["Swapped"];
export type HeadCard = Schemas["HeadCard"];
export type Heads = Schemas["Heads"];
export type AblateRequest = Schemas["AblateRequest"];
export type Ablated = Schemas["Ablated"];

export type RunCard = Schemas["RunCard"];
export type Line = Schemas["Line"];
export type Lines = Schemas["Lines"];
export type Milestone = Schemas["Milestone"];
export type Control = Schemas["Control"];
export type TextBlock = Schemas["TextBlock"];
export type FormulaBlock = Schemas["FormulaBlock"];
export type MatrixBlock = Schemas["MatrixBlock"];
export type Series = Schemas["Series"];
export type ChartBlock = Schemas["ChartBlock"];
export type QuestionBlock = Schemas["QuestionBlock"];
export type Block = TextBlock | FormulaBlock | MatrixBlock | ChartBlock | QuestionBlock;
export type LessonCard = Schemas["LessonCard"];
export type Lesson = Schemas["Lesson"];
export type Experiment = Schemas["Experiment"];
