// What one types or opens to see a milestone at work where no trained system on the shelf has it.
import type { Milestone } from "../../lib/types";

const PARTS = { score: "score", alignment: "align", mask: "mask", position: "position" } as const;

/** Data for each family of systems. */
const RECIPES = { system: "dates", language: "topics", sentences: "sentences --data FILE" } as const;

type System = Milestone & { family: keyof typeof RECIPES };

/** Whether it is a system, to be trained, and no mechanism. */
export const isSystem = (item: Milestone): item is System => item.family in RECIPES;

/** The name that commands and settings use: the last part of the key. */
export const plainName = (item: Milestone): string => item.key.split(/[/:.]/).at(-1) ?? item.key;

/** The command that trains a system; mechanisms need none, since any system can be swapped to them. */
export function trainCommand(item: Milestone): string | null {
  if (!isSystem(item)) return null;
  const name = plainName(item);
  return `regard train ${RECIPES[item.family]} --model ${name.replaceAll("_", "-")} --out runs/${name}`;
}

/** The setting of the Swap screen that puts a mechanism into a trained system. */
export function swapSetting(item: Milestone): Record<string, string> | null {
  return isSystem(item) ? null : { [PARTS[item.family as keyof typeof PARTS]]: plainName(item) };
}
