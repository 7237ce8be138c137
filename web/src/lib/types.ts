// Short names of the API's types, which are generated from the server's schema into schema.ts.
import type { components } from "./schema";

type Schemas = components["schemas"];
type Defaulted<T, K extends keyof T> = Omit<T, K> & Partial<Pick<T, K>>;

export type LocalizedText = Schemas["LocalizedText"];
export type State = Schemas["State"];
export type ModelCard = Schemas["ModelCard"];
export type Quality = Schemas["ModelQuality"];
export type Bucket = Schemas["QualityBucket"];
export type DemoProgress = Schemas["DemoProgress"];

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

export type Computation = Schemas["Computation"];
export type NumberInput = Schemas["NumberInput"];
export type NumberAnswer = Schemas["Number"];
export type Quantity = "query" | "key" | "value" | "score" | "allowed" | "weight" | "product" | "context";
export type Option = Schemas["Option"];
export type SwapOptions = Schemas["SwapOptions"];
export type SwapRequest = { site: string } & Partial<Schemas["SwapRequest"]>;
export type Outcome = Schemas["Outcome"];
export type SwapResult = Schemas["SwapResult"];
export type HeadMeasures = Schemas["HeadMeasures"];
export type HeadOverview = Schemas["HeadOverview"];
export type AblateRequest = Schemas["AblateRequest"];
export type AblationResult = Schemas["AblationResult"];

export type RunCard = Schemas["RunCard"];
export type MetricsLine = Schemas["MetricsLine"];
export type MetricsLines = Schemas["MetricsLines"];
export type Milestone = Schemas["Milestone"];
export type Control = Schemas["Control"];
export type TextBlock = Schemas["TextBlock"];
export type FormulaBlock = Schemas["FormulaBlock"];
export type MatrixBlock = Schemas["MatrixBlock"];
export type ChartSeries = Schemas["ChartSeries"];
export type ChartBlock = Schemas["ChartBlock"];
export type QuestionBlock = Schemas["QuestionBlock"];
export type LessonBlock = TextBlock | FormulaBlock | MatrixBlock | ChartBlock | QuestionBlock;
export type LessonCard = Schemas["LessonCard"];
export type Lesson = Schemas["LessonPage"];
export type Experiment = Schemas["ExperimentReport"];
export type ExperimentResult = Schemas["ExperimentResult"];
export type ExperimentRun = Schemas["ExperimentRunCard"];
export type ExperimentOutcome = Schemas["ExperimentVerdict"]["outcome"];
