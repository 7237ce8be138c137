// The attention of an inspection that a selection refers to, with defaults.
import { localized } from "./language.svelte";
import type { Axis, Inspection, Site } from "./types";

/** Filters of sites: `hasScores` for those with queries, keys and scores, `isCross` for those between two axes. */
export type SiteFilter = (site: Site) => boolean;
export const hasScores: SiteFilter = (site) => site.has_scores;
export const isCross: SiteFilter = (site) => site.queries !== site.keys;

/** The chosen site, else the model's own alignment, else one between two axes, else the first; null if none. */
export function siteOf(inspection: Inspection, path: string | null, filter?: SiteFilter): Site | null {
  const sites = sitesOf(inspection, filter);
  const chosen = sites.find((site) => site.path === path);
  return chosen ?? sites.find((site) => !site.has_scores) ?? sites.find(isCross) ?? sites[0] ?? null;
}

export function sitesOf(inspection: Inspection, filter?: SiteFilter): Site[] {
  return filter ? inspection.sites.filter(filter) : inspection.sites;
}

/** The chosen head, else the mean (-1) if it is allowed and there are several, else the first. */
export function headOf(site: Site, head: number | null, mean = true): number {
  if (head !== null && head >= 0 && head < site.heads) return head;
  return mean && site.heads !== 1 ? -1 : 0;
}

/** An axis by its name, or an axis without tokens. */
export function axisOf(inspection: Inspection, name: string): Axis {
  const axis = inspection.axes.find((one) => one.name === name);
  return (
    axis ?? {
      name,
      kind: "tokens",
      title: { en: name, zh: name },
      tokens: [],
      texts: [],
      unknown: [],
      labels: [],
      grid: null,
      is_stepwise: false,
    }
  );
}

/** The title of an axis in the language of the page. */
export function axisTitle(inspection: Inspection, name: string): string {
  return localized(axisOf(inspection, name).title);
}

/** The axis of the input, which is the first. */
export function inputAxis(inspection: Inspection): Axis {
  return inspection.axes[0] ?? axisOf(inspection, "");
}

/** Whether two sites have the same axes, so that a pair of one is a pair of the other. */
export function sameAxes(one: Site, other: Site): boolean {
  return one.queries === other.queries && one.keys === other.keys;
}
