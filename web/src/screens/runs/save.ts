// The chosen runs as files.
import { saveCsv, saveJson, savePng, saveSvg } from "../../lib/exports";
import { drawing, type PlotData } from "./drawing";
import type { LinesLoader } from "./linesLoader.svelte";
import type { Metric } from "./metrics";

const NAME = "regard-runs";

export const saveDrawing = (plots: PlotData[]): void => saveSvg(drawing(plots), NAME);

/** The same drawing as PNG; the SVG must be in the document to be rendered. */
export async function savePicture(plots: PlotData[]): Promise<void> {
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

export function saveTable(loaders: LinesLoader[], metrics: Metric[]): void {
  const keys = metrics.map((metric) => metric.key);
  const rows = loaders.flatMap((loader) =>
    loader.lines
      .filter((line) => keys.some((key) => key in line.values))
      .map((line) => [loader.name, line.step, ...keys.map((key) => line.values[key] ?? null)]),
  );
  saveCsv([["run", "step", ...keys], ...rows], NAME);
}

export const saveLines = (loaders: LinesLoader[]): void =>
  saveJson(
    loaders.map((loader) => ({ run: loader.name, lines: loader.lines })),
    NAME,
  );
