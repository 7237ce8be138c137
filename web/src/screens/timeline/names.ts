// What the timeline calls its items: a mechanism has a Chinese name, a system is called what its paper calls it.
import { language } from "../../lib/language.svelte";
import type { Milestone } from "../../lib/types";
import { nameOf } from "../words/swap";

/** The name that commands and settings use: the last part of the key. */
export const plainName = (item: Milestone): string => item.key.split(/[/:.]/).at(-1) ?? item.key;

export function titleOf(item: Milestone): string {
  const isOwn = language.now === "en" || item.family === "system";
  return isOwn ? item.title : nameOf(plainName(item)).zh;
}
