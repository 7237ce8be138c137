// The settings of a swap in the URL; unchanged settings have no entry.
import type { SwapOptions, SwapRequest } from "../../lib/types";

export interface Settings {
  score: string;
  align: string;
  mask: string;
  window: number;
  temperature: number;
  position: string;
}

export type Part = "score" | "align" | "mask" | "position";

export const OWN: Settings = { score: "own", align: "own", mask: "own", window: 2, temperature: 1, position: "own" };
export const PARTS: readonly { part: Part; options: keyof SwapOptions }[] = [
  { part: "score", options: "scores" },
  { part: "align", options: "aligns" },
  { part: "mask", options: "masks" },
  { part: "position", options: "positions" },
];
export const LOWEST_TEMPERATURE = 0.1;
export const HIGHEST_TEMPERATURE = 10;
export const WIDEST_WINDOW = 1000;

/** The masks that have a width. */
export const usesWindow = (mask: string): boolean => mask === "window" || mask === "dilated";

const within = (written: string | undefined, low: number, high: number, otherwise: number): number => {
  const value = written === undefined || written.trim() === "" ? Number.NaN : Number(written);
  return Number.isFinite(value) ? Math.min(high, Math.max(low, value)) : otherwise;
};

export function readSettings(extra: Record<string, string>): Settings {
  return {
    score: extra.score || OWN.score,
    align: extra.align || OWN.align,
    mask: extra.mask || OWN.mask,
    window: Math.round(within(extra.window, 0, WIDEST_WINDOW, OWN.window)),
    temperature: within(extra.temperature, LOWEST_TEMPERATURE, HIGHEST_TEMPERATURE, OWN.temperature),
    position: extra.position || OWN.position,
  };
}

/** The extras with these settings; defaults are left out to keep links short. */
export function writeSettings(extra: Record<string, string>, settings: Settings): Record<string, string> {
  const written = { ...extra };
  for (const name of Object.keys(OWN) as (keyof Settings)[]) {
    if (settings[name] === OWN[name]) delete written[name];
    else written[name] = String(settings[name]);
  }
  return written;
}

export const isOwn = (settings: Settings): boolean =>
  (Object.keys(OWN) as (keyof Settings)[]).every((name) => name === "window" || settings[name] === OWN[name]);

/** The request: an option that this site does not offer becomes `own`. */
export function swapRequest(settings: Settings, options: SwapOptions, site: string, head: number): SwapRequest {
  const request: SwapRequest = { site, head, ...settings };
  for (const { part, options: family } of PARTS) {
    const chosen = options[family].find((option) => option.name === settings[part]);
    if (!chosen || chosen.refusal) request[part] = "own";
  }
  return request;
}
