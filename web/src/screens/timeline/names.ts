// Titles of items: mechanisms have the names of Swap, all others come with their title in both languages.
import { language, localized } from "../../lib/language.svelte";
import type { Milestone } from "../../lib/types";
import { nameOf } from "../texts/swap";
import { plainName, swapSetting } from "./command";

export function titleOf(item: Milestone): string {
  return language.now === "zh" && swapSetting(item) ? nameOf(plainName(item)).zh : localized(item.title);
}
