// Numbers as text. Every number of the page is rounded here, so that one number has the same digits everywhere.

/** Rounded to decimals, halves away from zero; 0 has no sign. */
export function fixed(x: number, digits: number): string {
  const text = x.toFixed(digits);
  return Number(text) === 0 ? text.replace("-", "") : text;
}

/** A number with fixed decimals, or in scientific notation if it would be rounded to 0. */
export function number(x: number, digits = 3): string {
  if (!Number.isFinite(x)) return Number.isNaN(x) ? "NaN" : x > 0 ? "∞" : "-∞";
  const size = Math.abs(x);
  if (size !== 0 && (size < 0.5 * 10 ** -digits || size >= 1e6))
    return x.toExponential(Math.max(0, digits - 1));
  return fixed(x, digits);
}

/** Eight significant digits, enough for a float32. */
export function exact(x: number): string {
  if (!Number.isFinite(x)) return number(x);
  return x === 0 ? "0" : x.toPrecision(8);
}

/** A share of 1 in per cent: "62 %", "0.4 %", "< 0.1 %"; from 10 % on the digits are those of `fixed(x, 2)`. */
export function percent(x: number): string {
  if (!Number.isFinite(x)) return number(x);
  if (x === 0) return "0 %";
  const tenths = Number(fixed(x, 3));
  if (tenths === 0) return x < 0 ? "> -0.1 %" : "< 0.1 %";
  return Math.abs(tenths) < 0.1 ? `${fixed(tenths * 100, 1)} %` : `${wholePercent(x)} %`;
}

/** A share of 1 in per cent without a sign: "17". */
export function wholePercent(x: number): string {
  return fixed(Number(fixed(x, 2)) * 100, 0);
}

/** A number with its sign, for differences: "+0.25". */
export function withSign(text: string): string {
  return /^[-<>]/.test(text) || Number.parseFloat(text) === 0 ? text : `+${text}`;
}

/** 1234567 -> "1,234,567". */
export function bigInteger(x: number): string {
  return Math.round(x).toLocaleString("en-US");
}
