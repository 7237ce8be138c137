// What the timeline calls its items: a mechanism has a Chinese name, a system is called what its paper calls it.
import { language } from "../../lib/language.svelte";
import type { Milestone } from "../../lib/types";
import { nameOf } from "../texts/swap";
import { plainName } from "./command";

export function titleOf(item: Milestone): string {
  const isOwn = language.now === "en" || item.is_system;
  return isOwn ? item.title : nameOf(plainName(item)).zh;
}
