// Saving files: pictures, tables, traces, and pages from the server.
import { bytes, type Parameters } from "./api";

const STYLES = [
  "fill",
  "fill-opacity",
  "stroke",
  "stroke-width",
  "stroke-opacity",
  "stroke-linecap",
  "stroke-dasharray",
  "opacity",
  "color",
  "font-family",
  "font-size",
  "font-weight",
  "text-anchor",
  "dominant-baseline",
  "visibility",
  "paint-order",
  "text-decoration",
  "rx",
];

/** A canvas as it is (ours are drawn at twice the size of the page), an SVG at twice its size. */
export async function savePng(picture: HTMLCanvasElement | SVGSVGElement, name: string): Promise<void> {
  const canvas = picture instanceof SVGSVGElement ? await paint(picture) : onPaper(picture);
  const blob = await new Promise<Blob | null>((resolve) => canvas.toBlob(resolve, "image/png"));
  if (blob) saveBlob(blob, withEnding(name, "png"));
}

export function saveSvg(svg: SVGSVGElement | string, name: string): void {
  const text = typeof svg === "string" ? svg : svgText(svg);
  saveBlob(new Blob([text], { type: "image/svg+xml" }), withEnding(name, "svg"));
}

export function saveCsv(rows: (string | number | null)[][], name: string): void {
  const text = rows.map((row) => row.map(csvCell).join(",")).join("\r\n");
  saveBlob(new Blob([`\ufeff${text}\r\n`], { type: "text/csv;charset=utf-8" }), withEnding(name, "csv"));
}

export function saveJson(value: unknown, name: string): void {
  saveBlob(
    new Blob([JSON.stringify(value, null, 1)], { type: "application/json" }),
    withEnding(name, "json"),
  );
}

/** Saves a response, such as the self-contained HTML page of an inspection. */
export async function saveUrl(path: string, parameters: Parameters, name: string): Promise<void> {
  const { data, headers } = await bytes(path, parameters);
  const type = headers.get("Content-Type") ?? "text/html";
  saveBlob(new Blob([data], { type }), withEnding(name, "html"));
}

/** A cell of a CSV file; text that a spreadsheet would interpret as a formula gets an apostrophe. */
export function csvCell(value: string | number | null): string {
  if (value === null) return "";
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) || safe !== safe.trim() ? `"${safe.replaceAll('"', '""')}"` : safe;
}

function saveBlob(blob: Blob, name: string): void {
  const link = document.createElement("a");
  link.href = URL.createObjectURL(blob);
  link.download = name;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 10_000);
}

function withEnding(name: string, ending: string): string {
  const safe = name.replace(/[^\p{L}\p{N}._-]+/gu, "-").replace(/^[-.]+|-+$/g, "") || "regard";
  return safe.endsWith(`.${ending}`) ? safe : `${safe}.${ending}`;
}

function paper(): string {
  return getComputedStyle(document.body).backgroundColor;
}

function onPaper(picture: HTMLCanvasElement): HTMLCanvasElement {
  const canvas = document.createElement("canvas");
  canvas.width = picture.width;
  canvas.height = picture.height;
  const context = canvas.getContext("2d");
  if (!context) return picture;
  context.fillStyle = paper();
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.drawImage(picture, 0, 0);
  return canvas;
}

/** The SVG with its computed styles as attributes, so that it is self-contained. */
function svgText(svg: SVGSVGElement): string {
  const copy = svg.cloneNode(true) as SVGSVGElement;
  const from = [svg, ...svg.querySelectorAll("*")];
  const to = [copy, ...copy.querySelectorAll("*")];
  from.forEach((element, k) => {
    const style = getComputedStyle(element);
    const target = to[k];
    for (const name of STYLES) {
      const value = style.getPropertyValue(name);
      if (value !== "" && value !== "auto") target?.setAttribute(name, value);
    }
    for (const name of ["class", "style"]) target?.removeAttribute(name);
  });
  const { width, height } = svg.getBoundingClientRect();
  copy.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  copy.setAttribute("width", String(width));
  copy.setAttribute("height", String(height));
  const back = document.createElementNS("http://www.w3.org/2000/svg", "rect");
  for (const name of ["width", "height"]) back.setAttribute(name, "100%");
  back.setAttribute("fill", paper());
  copy.prepend(back);
  return new XMLSerializer().serializeToString(copy);
}

async function paint(svg: SVGSVGElement): Promise<HTMLCanvasElement> {
  const { width, height } = svg.getBoundingClientRect();
  const image = new Image();
  image.src = `data:image/svg+xml;charset=utf-8,${encodeURIComponent(svgText(svg))}`;
  await image.decode();
  const canvas = document.createElement("canvas");
  canvas.width = Math.round(width * 2);
  canvas.height = Math.round(height * 2);
  canvas.getContext("2d")?.drawImage(image, 0, 0, canvas.width, canvas.height);
  return canvas;
}
