// The name of a milestone in settings, and the setting of Swap that shows it.
import type { Milestone } from "../../lib/types";

const PARTS = { score: "score", alignment: "align", mask: "mask", position: "position" } as const;

/** The name that commands and settings use: the last part of the key. */
export const plainName = (item: Milestone): string => item.key.split(/[/:.]/).at(-1) ?? item.key;

/** The setting of the Swap screen that puts a mechanism into a trained system. */
export function swapSetting(item: Milestone): Record<string, string> | null {
  return item.family in PARTS ? { [PARTS[item.family as keyof typeof PARTS]]: plainName(item) } : null;
}
