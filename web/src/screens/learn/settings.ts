// The controls of a lesson in the URL (`width:0.5,points:20`), within their limits.
import type { Control } from "../../lib/types";

export type Settings = Record<string, number>;

export function readSettings(text: string | undefined): Settings {
  const settings: Settings = {};
  for (const pair of (text ?? "").split(",")) {
    const colon = pair.lastIndexOf(":");
    const value = Number(pair.slice(colon + 1));
    if (colon > 0 && pair.length > colon + 1 && Number.isFinite(value)) settings[pair.slice(0, colon)] = value;
  }
  return settings;
}

export const writeSettings = (settings: Settings): string =>
  Object.entries(settings)
    .map(([name, value]) => `${name}:${value}`)
    .join(",");

/** Rounded to the control's steps and limited to its range; floating-point noise is rounded off. */
export function fitted(control: Control, value: number): number {
  if (!Number.isFinite(value)) return control.value;
  const step = control.step > 0 ? control.step : 1;
  const onGrid = control.low + Math.round((value - control.low) / step) * step;
  return Number(Math.min(control.high, Math.max(control.low, onGrid)).toPrecision(12));
}
