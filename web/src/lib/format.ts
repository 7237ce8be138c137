// Numbers as text.

/** A number with fixed decimals, or in scientific notation if it would be rounded to 0. */
export function number(x: number, digits = 3): string {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "NaN" : x > 0 ? "∞" : "-∞";
  const size = Math.abs(x);
  if (size !== 0 && (size < 0.5 * 10 ** -digits || size >= 1e6))
    return x.toExponential(Math.max(0, digits - 1));
  const text = x.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

/** Eight significant digits, enough for a float32. */
export function exact(x: number): string {
  if (!Number.isFinite(x)) return number(x);
  return x === 0 ? "0" : x.toPrecision(8);
}

/** A share of 1 in per cent: "62 %", "0.4 %", "< 0.1 %". */
export function percent(x: number): string {
  if (!Number.isFinite(x)) return number(x);
  const size = Math.abs(x * 100);
  if (size === 0) return "0 %";
  if (size < 0.05) return x < 0 ? "> -0.1 %" : "< 0.1 %";
  return `${(x * 100).toFixed(size < 9.95 ? 1 : 0)} %`;
}

/** 1234567 -> "1,234,567". */
export function bigInteger(x: number): string {
  return Math.round(x).toLocaleString("en-US");
}
