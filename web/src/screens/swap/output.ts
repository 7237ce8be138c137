// The name of the output of an inspection, by its panels.
import type { Inspection } from "../../lib/types";

export type OutputName = "output" | "continuation" | "class";

export function outputName({ panels }: Inspection): OutputName {
  if (panels.includes("next_token")) return "continuation";
  return panels.includes("classes") ? "class" : "output";
}
