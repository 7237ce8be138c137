// The tables of a stage: real values of the tensors, each cell with the position of its number.
import type { Computation } from "../../lib/types";
import type { t as words } from "../texts/compute";
import type { NumberPosition, Quantity } from "./positions";
import { DIMENSIONS_PER_PAGE, KEYS_PER_PAGE, type StageName } from "./stages";

export interface Cell {
  /** Null if the cell repeats another one. */
  position: NumberPosition | null;
  value: number | boolean;
  /** The value relative to the largest of the table: -1 .. 1. */
  share: number;
  scale: "signed" | "weight" | "plain";
}

export interface NumberTable {
  caption: string;
  corner: string;
  columns: string[];
  /** `index` is the position of the row's token, or null. */
  rows: { label: string; index: number | null; total: boolean; cells: Cell[] }[];
}

/**
 * The bar of a cell in a column, as shares of its width: from zero, which is in the middle of signed numbers, to the
 * number. Null where there is nothing to draw.
 */
export function barOf({ scale, share }: Cell): { from: number; to: number } | null {
  if (scale === "plain" || share === 0) return null;
  const size = Math.min(1, Math.abs(share));
  if (scale === "weight") return { from: 0, to: size };
  return share < 0 ? { from: 0.5 - size / 2, to: 0.5 } : { from: 0.5, to: 0.5 + size / 2 };
}

/** The page of a computation. */
export interface Frame {
  computed: Computation;
  firstKey: number;
  firstDimension: number;
  token: string;
  keyName: (key: number) => string;
  t: (key: Parameters<typeof words>[0], values?: Record<string, string | number>) => string;
}

const LOWEST = -3.4e38;

/** JSON has no infinity: the server sends the lowest number of single precision. */
const real = (score: number): number => (score <= LOWEST ? -Infinity : score);

const largest = (values: readonly number[]): number =>
  values.reduce((max, value) => (Number.isFinite(value) ? Math.max(max, Math.abs(value)) : max), 0) || 1;

function keysOfPage({ computed, firstKey }: Frame): number[] {
  const end = Math.min(firstKey + KEYS_PER_PAGE, computed.first_key + computed.scores.length);
  return Array.from({ length: Math.max(0, end - firstKey) }, (_, offset) => firstKey + offset);
}

function dimensionsOfPage({ firstDimension }: Frame, size: number): number[] {
  const end = Math.min(firstDimension + DIMENSIONS_PER_PAGE, size);
  return Array.from({ length: Math.max(0, end - firstDimension) }, (_, offset) => firstDimension + offset);
}

function signed(quantity: Quantity, key: number | null, dimension: number | null, value: number, max: number): Cell {
  const share = Number.isFinite(value) ? value / max : 0;
  return { position: { quantity, key, dimension }, value, share, scale: "signed" };
}

function vectorTable(
  frame: Frame,
  caption: string,
  size: number,
  rows: { label: string; quantity: Quantity; key: number | null; values: readonly number[]; total?: boolean }[],
): NumberTable {
  const dimensions = dimensionsOfPage(frame, size);
  const first = frame.computed.first_dimension;
  const max = largest(rows.flatMap((row) => dimensions.map((dimension) => row.values[dimension - first] ?? 0)));
  return {
    caption,
    corner: frame.t("token"),
    columns: dimensions.map(String),
    rows: rows.map(({ label, quantity, key, values, total = false }) => ({
      label,
      index: key,
      total,
      cells: dimensions.map((dimension) => signed(quantity, key, dimension, values[dimension - first] ?? 0, max)),
    })),
  };
}

const keyRows = (frame: Frame, quantity: Quantity, vectors: readonly (readonly number[])[]) =>
  keysOfPage(frame).map((key) => ({
    label: frame.keyName(key),
    quantity,
    key,
    values: vectors[key - frame.computed.first_key] ?? [],
  }));

function weightCell({ computed }: Frame, key: number): Cell {
  const value = computed.weights[key - computed.first_key] ?? 0;
  const position: NumberPosition = { quantity: "weight", key, dimension: null };
  return { position, value, share: Math.abs(value) / largest(computed.weights), scale: "weight" };
}

/** A row for each key; each stage adds a column to those of the stages before. */
function keyTable(frame: Frame, caption: string, stage: "scores" | "mask" | "weights"): NumberTable {
  const { computed, t } = frame;
  const columns = [t("score")];
  if (stage !== "scores" && computed.allowed) columns.push(t("allowed"), t("maskedScore"));
  if (stage === "weights") columns.push(t("weight"));
  const max = largest(computed.scores.map(real));
  const cellsOf = (key: number): Cell[] => {
    const score = real(computed.scores[key - computed.first_key] ?? 0);
    const cells = [signed("score", key, null, score, max)];
    if (stage !== "scores" && computed.allowed) {
      const allowed = computed.allowed[key - computed.first_key] ?? false;
      cells.push(
        { position: { quantity: "allowed", key, dimension: null }, value: allowed, share: 0, scale: "plain" },
        { position: null, value: allowed ? score : -Infinity, share: 0, scale: "plain" },
      );
    }
    if (stage === "weights") cells.push(weightCell(frame, key));
    return cells;
  };
  const rows = keysOfPage(frame).map((key) => ({
    label: frame.keyName(key),
    index: key,
    total: false,
    cells: cellsOf(key),
  }));
  return { caption, corner: t("keyColumn"), columns, rows };
}

function products({ computed }: Frame): number[][] {
  return computed.values.map((values, offset) => values.map((value) => value * (computed.weights[offset] ?? 0)));
}

function valueTable(frame: Frame): NumberTable {
  const { computed, t } = frame;
  const table = vectorTable(frame, t("valueTable"), computed.value_size, keyRows(frame, "value", computed.values));
  keysOfPage(frame).forEach((key, row) => table.rows[row]?.cells.unshift(weightCell(frame, key)));
  return { ...table, columns: [t("weight"), ...table.columns] };
}

function contextTable(frame: Frame): NumberTable {
  const { computed, t } = frame;
  const isWhole = keysOfPage(frame).length === computed.num_keys;
  const label = isWhole ? t("context") : t("contextAll", { count: computed.num_keys });
  return vectorTable(frame, t("contextTable"), computed.value_size, [
    ...keyRows(frame, "product", products(frame)),
    { label, quantity: "context" as const, key: null, values: computed.context, total: true },
  ]);
}

export function tablesOf(stage: StageName, frame: Frame): NumberTable[] {
  const { computed, t } = frame;
  if (stage === "vectors") {
    const row = { label: frame.token, quantity: "query" as const, key: null, values: computed.query };
    return [
      vectorTable(frame, t("queryTable", { token: frame.token }), computed.size, [row]),
      vectorTable(frame, t("keyTable"), computed.size, keyRows(frame, "key", computed.keys)),
    ];
  }
  if (stage === "scores") return [keyTable(frame, t("scoreTable"), stage)];
  if (stage === "mask") return [keyTable(frame, t("maskTable"), stage)];
  if (stage === "weights") return [keyTable(frame, t("weightTable"), stage)];
  if (stage === "context") return [contextTable(frame)];
  const rows = keyRows(frame, "product", products(frame));
  return [valueTable(frame), vectorTable(frame, t("productTable"), computed.value_size, rows)];
}
