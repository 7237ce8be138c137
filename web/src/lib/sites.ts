// Which attention is shown when the selection names none, or one that the look does not have.
import { said } from "./language.svelte";
import type { Look, Side, Site } from "./types";

/** The chosen site, else the system's own alignment, else the first of the kinds; null where there is none. */
export function siteOf(look: Look, path: string | null, kinds?: Site["kind"][]): Site | null {
  const sites = sitesOf(look, kinds);
  const chosen = sites.find((site) => site.path === path);
  return chosen ?? sites.find((site) => site.kind === "alignment") ?? preferred(sites) ?? null;
}

export function sitesOf(look: Look, kinds?: Site["kind"][]): Site[] {
  return look.sites.filter((site) => !kinds || kinds.includes(site.kind));
}

/** The chosen head, else the mean (-1) where it is allowed and there are several, else the first. */
export function headOf(site: Site, head: number | null, mean = true): number {
  if (head !== null && head >= 0 && head < site.heads) return head;
  return mean && site.heads !== 1 ? -1 : 0;
}

export function sideOf(look: Look, name: Side["name"]): Side {
  const side = look.sides.find((one) => one.name === name) ?? { name, tokens: [], pieces: [] };
  return look.kind === "sentences" && name === "target" ? inRows(side) : side;
}

/** Rows of attention are numbers, from 1: they are called what the language of the page calls a row. */
function inRows(side: Side): Side {
  const named = (number: string): string => said({ en: `row ${number}`, zh: `第 ${number} 行` });
  const pieces = side.pieces.map((piece) => ({ ...piece, text: named(piece.text) }));
  return { ...side, tokens: side.tokens.map(named), pieces };
}

/** Whether two sites have the same tokens at their sides, so that a pair of one is a pair of the other. */
export function sameSides(one: Site, other: Site): boolean {
  return one.queries === other.queries && one.keys === other.keys;
}

function preferred(sites: Site[]): Site | undefined {
  return sites.find((site) => site.kind === "cross") ?? sites[0];
}
