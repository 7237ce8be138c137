// Curves as a self-contained SVG for papers: black on white, with colours and dashes.
import { scaleLinear, scaleLog } from "d3-scale";

export interface PlotData {
  title: string;
  xLabel: string;
  series: { label: string; x: number[]; y: number[] }[];
  logY: boolean;
}

const WIDTH = 760;
const PLOT = 260;
const LEFT = 72;
const RIGHT = 32;
const TOP = 40;
const BOTTOM = 48;
const LEGEND_ROW = 20;
const COLOURS = ["#0b57a4", "#b3420a", "#1e6e3c", "#7a3e9d", "#8a5a00", "#444444"];
const DASHES = ["", "6 3", "2 3", "8 3 2 3"];
const FONT = "Inter, system-ui, 'Noto Sans CJK SC', 'PingFang SC', 'Microsoft YaHei', sans-serif";

const escaped = (text: string): string =>
  text.replace(/[<>&"]/g, (sign) => `&#${sign.charCodeAt(0)};`).replace(/[\p{Cc}\p{Cn}\p{Cs}]/gu, "");

const text = (x: number, y: number, content: string, more = ""): string =>
  `<text x="${x}" y="${y}" ${more}>${escaped(content)}</text>`;

const strokeOf = (index: number): string => {
  const dash = DASHES[index % DASHES.length];
  return `stroke="${COLOURS[index % COLOURS.length]}"${dash ? ` stroke-dasharray="${dash}"` : ""}`;
};

const plain = (value: number): string => String(Number(value.toPrecision(4)));

const usable = (y: number, logY: boolean): boolean => Number.isFinite(y) && (!logY || y > 0);

function extent(values: number[]): [number, number] {
  if (values.length === 0) return [1, 10];
  const low = values.reduce((one, other) => Math.min(one, other));
  const high = values.reduce((one, other) => Math.max(one, other));
  return low === high ? [low, high + (Math.abs(high) || 1)] : [low, high];
}

function plot({ title, xLabel, series, logY }: PlotData, top: number): string {
  const xs = extent(series.flatMap((each) => each.x));
  const ys = extent(series.flatMap((each) => each.y).filter((y) => usable(y, logY)));
  const x = scaleLinear(xs, [LEFT, WIDTH - RIGHT]);
  const range = [top + TOP + PLOT, top + TOP];
  const y = logY ? scaleLog(ys, range) : scaleLinear(ys, range).nice();
  const isLabelled = y.tickFormat(5);
  const lines = y.ticks(5).map((value) => {
    const line = `<line x1="${LEFT}" x2="${WIDTH - RIGHT}" y1="${y(value)}" y2="${y(value)}" stroke="#e2e2de"/>`;
    return line + text(LEFT - 8, y(value) + 4, isLabelled(value) ? plain(value) : "", 'text-anchor="end"');
  });
  const steps = x
    .ticks(8)
    .map((value) => text(x(value), range[0] + 18, x.tickFormat(8)(value), 'text-anchor="middle"'));
  const curves = series.map((each, index) => {
    const points = each.x.flatMap((step, k) => (usable(each.y[k], logY) ? [`${x(step)},${y(each.y[k])}`] : []));
    const style = `fill="none" stroke-width="1.5" ${strokeOf(index)}`;
    if (points.length > 1) return `<polyline points="${points.join(" ")}" ${style}/>`;
    const [cx, cy] = (points[0] ?? "").split(",");
    return cy ? `<circle cx="${cx}" cy="${cy}" r="3" fill="${COLOURS[index % COLOURS.length]}"/>` : "";
  });
  const legend = series.map((each, index) => {
    const at = range[0] + BOTTOM + index * LEGEND_ROW;
    const sample = `<line x1="${LEFT}" x2="${LEFT + 28}" y1="${at}" y2="${at}" stroke-width="2" ${strokeOf(index)}/>`;
    return sample + text(LEFT + 36, at + 4, each.label);
  });
  return [
    text(LEFT, top + 24, title, 'font-weight="600" font-size="15"'),
    ...lines,
    ...steps,
    text(WIDTH - RIGHT, range[0] + 34, xLabel, 'text-anchor="end"'),
    ...curves,
    ...legend,
  ].join("\n");
}

export function drawing(plots: PlotData[]): string {
  let height = 0;
  const parts = plots.map((each) => {
    const part = plot(each, height);
    height += TOP + PLOT + BOTTOM + each.series.length * LEGEND_ROW + 16;
    return part;
  });
  const size = `width="${WIDTH}" height="${height}" viewBox="0 0 ${WIDTH} ${height}"`;
  return `<svg xmlns="http://www.w3.org/2000/svg" ${size} font-family="${FONT}" font-size="12" fill="#1b1d20">
<rect width="100%" height="100%" fill="#ffffff"/>
${parts.join("\n")}
</svg>
`;
}
