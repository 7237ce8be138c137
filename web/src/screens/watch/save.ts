// Files of Watch.
import { saveCsv, saveJson, savePng, saveSvg, saveUrl } from "../../lib/exports";
import { matrixSvg } from "../../lib/figure";
import { language } from "../../lib/language.svelte";
import type { DisplayToken } from "../../lib/labels";
import { axisOf } from "../../lib/sites";
import type { Inspection, Site } from "../../lib/types";
import { complete, numbersOf, type Weights } from "../../lib/weights";
import { t } from "../texts/watch";

export type Picture = { inspection: Inspection; site: Site; head: number; weights: Weights };
type Drawn = {
  merged: Weights;
  rows: DisplayToken[];
  columns: DisplayToken[];
  canvas?: HTMLCanvasElement;
  svg?: SVGSVGElement;
};

const MAX_CELLS = 40_000;

export function saveItems(
  picture: Picture,
  drawn: Drawn,
): { label: string; run: () => void | Promise<void> }[] {
  const { inspection, site, head } = picture;
  const { merged, rows, columns, canvas, svg } = drawn;
  const name = `regard-${inspection.model}-${site.path}-${head < 0 ? "mean" : head}`;
  const title = `${inspection.model} · ${site.path}`;
  const isSmall = rows.length * columns.length <= MAX_CELLS;
  return [
    ...(canvas ? [{ label: t("pngHeat"), run: () => savePng(canvas, name) }] : []),
    ...(svg ? [{ label: t("pngRibbons"), run: () => savePng(svg, `${name}-ribbons`) }] : []),
    ...(isSmall
      ? [{ label: t("svgHeat"), run: () => saveSvg(matrixSvg(merged, rows, columns, title), name) }]
      : []),
    ...(svg ? [{ label: t("svgRibbons"), run: () => saveSvg(svg, `${name}-ribbons`) }] : []),
    { label: t("csv"), run: () => saveTable(picture, name) },
    { label: t("json"), run: () => saveTrace(picture, name) },
    { label: t("html"), run: () => savePage(picture, name) },
  ];
}

async function saveTable(picture: Picture, name: string): Promise<void> {
  const { inspection, site } = picture;
  const [queries, keys] = [axisOf(inspection, site.queries).tokens, axisOf(inspection, site.keys).tokens];
  const values = await allWeights(picture);
  saveCsv([["", ...keys], ...values.map((row, i) => [queries[i] ?? "", ...row])], name);
}

async function saveTrace(picture: Picture, name: string): Promise<void> {
  const { inspection, site, head } = picture;
  saveJson({ inspection, site: site.path, head, weights: await allWeights(picture) }, name);
}

function savePage({ inspection, site, head }: Picture, name: string): Promise<void> {
  const path = `/api/inspections/${encodeURIComponent(inspection.id)}/page`;
  return saveUrl(path, { site: site.path, head, lang: language.now }, name);
}

async function allWeights({ weights }: Picture): Promise<number[][]> {
  return numbersOf(await complete(weights));
}
