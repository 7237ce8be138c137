// Titles of items: mechanisms are translated, systems have the name of their paper.
import { language } from "../../lib/language.svelte";
import type { Milestone } from "../../lib/types";
import { nameOf } from "../texts/swap";
import { plainName } from "./command";

export function titleOf(item: Milestone): string {
  const isOwn = language.now === "en" || item.is_system;
  return isOwn ? item.title : nameOf(plainName(item)).zh;
}
