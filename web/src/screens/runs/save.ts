// The chosen runs as files.
import { saveCsv, saveJson, savePng, saveSvg } from "../../lib/exports";
import { drawing, type Drawn } from "./drawing";
import type { Feed } from "./feed.svelte";
import type { Metric } from "./metrics";

const NAME = "regard-runs";

export const saveDrawing = (plots: Drawn[]): void => saveSvg(drawing(plots), NAME);

/** The same drawing as a picture; it has to stand in the page for a moment to be painted. */
export async function savePicture(plots: Drawn[]): Promise<void> {
  const svg = new DOMParser().parseFromString(drawing(plots), "image/svg+xml").documentElement;
  if (!(svg instanceof SVGSVGElement)) return;
  const host = document.body.appendChild(document.createElement("div"));
  host.setAttribute("style", "position: fixed; left: -9999px; top: 0");
  host.append(svg);
  try {
    await savePng(svg, NAME);
  } finally {
    host.remove();
  }
}

export function saveTable(feeds: Feed[], metrics: Metric[]): void {
  const keys = metrics.map((metric) => metric.key);
  const rows = feeds.flatMap((feed) =>
    feed.lines
      .filter((line) => keys.some((key) => key in line.values))
      .map((line) => [feed.name, line.step, ...keys.map((key) => line.values[key] ?? null)]),
  );
  saveCsv([["run", "step", ...keys], ...rows], NAME);
}

export const saveLines = (feeds: Feed[]): void =>
  saveJson(
    feeds.map((feed) => ({ run: feed.name, lines: feed.lines })),
    NAME,
  );
