// What one types or opens to see a milestone at work where no trained system on the shelf has it.
import type { Milestone } from "../../lib/types";

const PARTS = { score: "score", alignment: "align", mask: "mask", position: "position" } as const;

/** The name that commands and settings use: the last part of the key. */
export const plainName = (item: Milestone): string => item.key.split(/[/:.]/).at(-1) ?? item.key;

/** The command that trains a system; mechanisms need none, since any system can be swapped to them. */
export function trainCommand(item: Milestone): string | null {
  if (item.family !== "system") return null;
  const name = plainName(item);
  return `regard train dates --model ${name.replaceAll("_", "-")} --out runs/${name}`;
}

/** The setting of the Swap screen that puts a mechanism into a trained system. */
export function swapSetting(item: Milestone): Record<string, string> | null {
  return item.family === "system" ? null : { [PARTS[item.family]]: plainName(item) };
}
