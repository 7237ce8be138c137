// A heat map as a self-contained SVG for papers: cells, labels, a title.
import { colourOf, viridisTable } from "./colour";
import type { DisplayToken } from "./labels";
import type { Weights } from "./weights";

const CELL = 18;
const FONT = "Inter, system-ui, Noto Sans CJK SC, PingFang SC, Microsoft YaHei, sans-serif";

export function matrixSvg(weights: Weights, rows: DisplayToken[], columns: DisplayToken[], title: string): string {
  const left = 16 + 9 * longest(rows);
  const top = 40 + Math.max(18, 9 * longest(columns.filter(isLong)));
  const [width, height] = [left + CELL * columns.length + 16, top + CELL * rows.length + 16];
  const parts = [
    `<svg xmlns="http://www.w3.org/2000/svg" width="${width}" height="${height}"`,
    ` viewBox="0 0 ${width} ${height}" font-family="${FONT}" font-size="13">`,
    `<title>${escaped(title)}</title><rect width="100%" height="100%" fill="#ffffff"/>`,
    `<text x="16" y="22" font-weight="600">${escaped(title)}</text>`,
  ];
  rows.forEach((row, r) => {
    const y = top + CELL * r;
    parts.push(`<text x="${left - 6}" y="${y + CELL * 0.7}" text-anchor="end"${decoration(row)}>${escaped(row.text)}</text>`);
    columns.forEach((_, c) => {
      const colour = colourOf(viridisTable, weights.data[r * weights.keys + c] ?? 0).join(",");
      parts.push(
        `<rect x="${left + CELL * c}" y="${y}" width="${CELL}" height="${CELL}" fill="rgb(${colour})"/>`,
      );
    });
  });
  columns.forEach((column, c) => {
    const place = isLong(column)
      ? `transform="translate(${left + CELL * (c + 0.7)} ${top - 6}) rotate(-90)"`
      : `x="${left + CELL * (c + 0.5)}" y="${top - 6}" text-anchor="middle"`;
    parts.push(`<text ${place}${decoration(column)}>${escaped(column.text)}</text>`);
  });
  return `${parts.join("\n")}\n</svg>\n`;
}

export function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (sign) => `&#${sign.charCodeAt(0)};`);
}

function decoration(token: DisplayToken): string {
  return token.unknown ? ' text-decoration="underline dotted"' : "";
}

/** Wider than its column. */
function isLong(token: DisplayToken): boolean {
  return [...token.text].length > 1;
}

function longest(tokens: DisplayToken[]): number {
  return tokens.reduce((most, token) => Math.max(most, [...token.text].length), 1);
}
