// Attention weights as bytes, for pictures: merged to characters, pooled to pixels, subtracted.
export type Span = { first: number; last: number };

/** weight = byte / 255 * high; rows are queries. Differences: (byte - 128) / 127 * high. */
export type Weights = { queries: number; keys: number; high: number; data: Uint8Array };

export function at(weights: Weights, i: number, j: number): number {
  return ((weights.data[i * weights.keys + j] ?? 0) / 255) * weights.high;
}

/** The value in a `difference`. */
export function differenceAt(weights: Weights, i: number, j: number): number {
  return (((weights.data[i * weights.keys + j] ?? 128) - 128) / 127) * weights.high;
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
  const sums = new Float64Array(queryLabels.length * keyLabels.length);
  let highest = 0;
  queryLabels.forEach((row, r) => {
    const count = row.last - row.first + 1;
    keyLabels.forEach((column, c) => {
      let sum = 0;
      for (let i = row.first; i <= row.last; i += 1) {
        for (let j = column.first; j <= column.last; j += 1) sum += weights.data[i * weights.keys + j] ?? 0;
      }
      sums[r * keyLabels.length + c] = sum / count;
      highest = Math.max(highest, sum / count);
    });
  });
  const data = Uint8Array.from(sums, (sum) => (highest > 0 ? Math.round((sum / highest) * 255) : 0));
  return { queries: queryLabels.length, keys: keyLabels.length, high: (highest / 255) * weights.high, data };
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

/** after - before, on one scale about 0: read it with `differenceAt`, draw it with scale="difference". */
export function difference(after: Weights, before: Weights): Weights {
  const cells = after.queries * after.keys;
  const values = new Float64Array(cells);
  let high = 0;
  for (let k = 0; k < cells; k += 1) {
    values[k] = ((after.data[k] ?? 0) * after.high - (before.data[k] ?? 0) * before.high) / 255;
    high = Math.max(high, Math.abs(values[k]!));
  }
  const data = Uint8Array.from(values, (value) => 128 + (high > 0 ? Math.round((value / high) * 127) : 0));
  return { queries: after.queries, keys: after.keys, high, data };
}

/** From numbers >= 0, for small pictures that do not come from the server. */
export function fromNumbers(values: number[][]): Weights {
  const flat = values.flat();
  const high = flat.reduce((max, value) => Math.max(max, value), 0);
  const data = Uint8Array.from(flat, (value) => (high > 0 ? Math.round((value / high) * 255) : 0));
  return { queries: values.length, keys: values[0]?.length ?? 0, high, data };
}

/** The column with the most weight in a row. */
export function strongestKey(weights: Weights, i: number): number {
  let best = 0;
  for (let j = 1; j < weights.keys; j += 1) if (at(weights, i, j) > at(weights, i, best)) best = j;
  return best;
}

/** The row with the most weight on a column. */
export function strongestQuery(weights: Weights, j: number): number {
  let best = 0;
  for (let i = 1; i < weights.queries; i += 1) if (at(weights, i, j) > at(weights, best, j)) best = i;
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
