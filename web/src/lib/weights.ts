// Attention weights: merged to characters, subtracted, and as bytes for colours, pooled to pixels.
export type Span = { first: number; last: number };

/**
 * The weights of one head; rows are queries. `value` is the exact number; of a large map, which has `need`, it is null
 * until `need` has requested its row. `data` has 256 steps from 0 to `high` for colours: what is printed is a `value`.
 */
export type Weights = {
  queries: number;
  keys: number;
  high: number;
  data: Uint8Array;
  value: (i: number, j: number) => number | null;
  need?: (first: number, last: number) => void;
  /** Of a large map: all of its exact numbers. */
  all?: () => Promise<Weights>;
};

/** The exact weight; null while its row is not here. */
export function at(weights: Weights, i: number, j: number): number | null {
  return i >= 0 && j >= 0 && i < weights.queries && j < weights.keys ? weights.value(i, j) : null;
}

/** The exact weight, or of a large map the step of its colour: to draw and to compare, not to print. */
export function shade(weights: Weights, i: number, j: number): number {
  if (weights.need) return ((weights.data[i * weights.keys + j] ?? 0) / 255) * weights.high;
  return weights.value(i, j) ?? 0;
}

/** The same weights with every exact number, for files. */
export async function complete(weights: Weights): Promise<Weights> {
  return weights.all ? await weights.all() : weights;
}

/** Every exact number, row by row. */
export function numbersOf(weights: Weights): number[][] {
  return Array.from({ length: weights.queries }, (_, i) =>
    Array.from({ length: weights.keys }, (_, j) => at(weights, i, j) ?? Number.NaN),
  );
}

/** From numbers >= 0, query by query. */
export function fromValues(values: ArrayLike<number>, queries: number, keys: number): Weights {
  let high = 0;
  for (let k = 0; k < values.length; k += 1) high = Math.max(high, values[k]!);
  const data = Uint8Array.from(values, (value) => step(value, high));
  return { queries, keys, high, data, value: (i, j) => values[i * keys + j] ?? null };
}

/** From rows of numbers >= 0, for small pictures that do not come from the server. */
export function fromNumbers(values: number[][]): Weights {
  return fromValues(values.flat(), values.length, values[0]?.length ?? 0);
}

/** Two maps on one scale: equal bytes are equal weights. */
export function alike(one: Weights, other: Weights): [Weights, Weights] {
  const high = Math.max(one.high, other.high);
  const scaled = (map: Weights): Weights =>
    map.high === high ? map : { ...map, high, data: map.data.map((byte) => Math.round((byte * map.high) / high)) };
  return [scaled(one), scaled(other)];
}

/** Merged to labels: the sum over the tokens of a key label, the mean over those of a query label. */
export function merge(weights: Weights, queryLabels: Span[], keyLabels: Span[]): Weights {
  if (isIdentity(queryLabels, weights.queries) && isIdentity(keyLabels, weights.keys)) return weights;
  const [queries, keys] = [queryLabels.length, keyLabels.length];
  const { need, all } = weights;
  const value = (r: number, c: number) => mean(queryLabels[r]!, keyLabels[c]!, (i, j) => at(weights, i, j));
  const shades = (r: number, c: number) => mean(queryLabels[r]!, keyLabels[c]!, (i, j) => shade(weights, i, j)) ?? 0;
  const merged = fromValues(cells(queries, keys, shades), queries, keys);
  if (!need || !all) return merged;
  return {
    ...merged,
    value,
    need: (first, last) => need(queryLabels[first]?.first ?? 0, queryLabels[last]?.last ?? 0),
    all: async () => merge(await all(), queryLabels, keyLabels),
  };
}

/** The sum over the keys and the mean over the queries of a pair of labels; null if one of the numbers is. */
function mean(row: Span, column: Span, value: (i: number, j: number) => number | null): number | null {
  let sum = 0;
  for (let i = row.first; i <= row.last; i += 1) {
    for (let j = column.first; j <= column.last; j += 1) {
      const one = value(i, j);
      if (one === null) return null;
      sum += one;
    }
  }
  return sum / (row.last - row.first + 1);
}

function cells(queries: number, keys: number, value: (i: number, j: number) => number): Float64Array {
  return Float64Array.from({ length: queries * keys }, (_, k) => value(Math.floor(k / keys), k % keys));
}

function step(value: number, high: number): number {
  return high > 0 ? Math.round((value / high) * 255) : 0;
}

/** Max-pooling to at most height x width. */
export function pool(weights: Weights, height: number, width: number): Weights {
  const rows = Math.max(1, Math.min(Math.floor(height), weights.queries));
  const columns = Math.max(1, Math.min(Math.floor(width), weights.keys));
  if (rows === weights.queries && columns === weights.keys) return weights;
  const window = { top: 0, left: 0, rows: weights.queries, columns: weights.keys };
  return {
    queries: rows,
    keys: columns,
    high: weights.high,
    data: poolWindow(weights, window, rows, columns),
    // a pixel covers several weights: it has a colour and no number
    value: () => null,
  };
}

export type Window = { top: number; left: number; rows: number; columns: number };

/**
 * A window of the weights, in cells (fractions allowed), pooled to height x width bytes; cells may repeat.
 * The byte farthest from `zero` wins: 0 for weights, 128 for differences.
 */
export function poolWindow(
  weights: Weights,
  window: Window,
  height: number,
  width: number,
  zero = 0,
): Uint8Array {
  const strength = Uint8Array.from({ length: 256 }, (_, byte) => Math.abs(byte - zero));
  const { starts: left, ends: right } = bins(window.left, window.columns, width, weights.keys);
  const { starts: top, ends: bottom } = bins(window.top, window.rows, height, weights.queries);
  const first = top[0] ?? 0;
  const last = bottom[height - 1] ?? 0;
  const across = new Uint8Array((last - first) * width);
  for (let i = first; i < last; i += 1) {
    const from = i * weights.keys;
    const to = (i - first) * width;
    for (let x = 0; x < width; x += 1) {
      let strongest = zero;
      for (let j = left[x]!; j < right[x]!; j += 1) {
        const byte = weights.data[from + j]!;
        if (strength[byte]! > strength[strongest]!) strongest = byte;
      }
      across[to + x] = strongest;
    }
  }
  const out = new Uint8Array(height * width).fill(zero);
  for (let y = 0; y < height; y += 1) {
    for (let i = top[y]! - first; i < bottom[y]! - first; i += 1) {
      for (let x = 0; x < width; x += 1) {
        const byte = across[i * width + x]!;
        if (strength[byte]! > strength[out[y * width + x]!]!) out[y * width + x] = byte;
      }
    }
  }
  return out;
}

/** after - before, on one scale about 0: byte 128 + 127 is `high`, 128 - 127 is -`high`; drawn with scale="difference". */
export function difference(after: Weights, before: Weights): Weights {
  const { queries, keys } = after;
  const values = cells(queries, keys, (i, j) => shade(after, i, j) - shade(before, i, j));
  const high = values.reduce((most, value) => Math.max(most, Math.abs(value)), 0);
  const data = Uint8Array.from(values, (value) => 128 + (high > 0 ? Math.round((value / high) * 127) : 0));
  const value = (i: number, j: number) => {
    const [one, other] = [at(after, i, j), at(before, i, j)];
    return one === null || other === null ? null : one - other;
  };
  if (!after.need && !before.need) return { queries, keys, high, data, value };
  const need = (first: number, last: number) => [after, before].forEach((map) => map.need?.(first, last));
  const all = async () => difference(await complete(after), await complete(before));
  return { queries, keys, high, data, value, need, all };
}

/** The column with the most weight in a row. */
export function strongestKey(weights: Weights, i: number): number {
  let best = 0;
  for (let j = 1; j < weights.keys; j += 1) if (shade(weights, i, j) > shade(weights, i, best)) best = j;
  return best;
}

/** The row with the most weight on a column. */
export function strongestQuery(weights: Weights, j: number): number {
  let best = 0;
  for (let i = 1; i < weights.queries; i += 1) if (shade(weights, i, j) > shade(weights, best, j)) best = i;
  return best;
}

function isIdentity(labels: Span[], count: number): boolean {
  return labels.length === count && labels.every((label, k) => label.first === k && label.last === k);
}

function bins(start: number, length: number, count: number, size: number) {
  const starts = new Int32Array(count);
  const ends = new Int32Array(count);
  for (let k = 0; k < count; k += 1) {
    const from = Math.floor(start + (k * length) / count + 1e-9);
    const to = Math.ceil(start + ((k + 1) * length) / count - 1e-9);
    starts[k] = Math.min(Math.max(from, 0), size - 1);
    ends[k] = Math.min(Math.max(to, starts[k]! + 1), size);
  }
  return { starts, ends };
}
