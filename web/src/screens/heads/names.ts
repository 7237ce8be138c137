// What heads are called: `encoder.0` is layer 0 of the encoder, counted from 0 as in addresses.
import { t } from "../words/heads";

/** The name of a layer, or without its stem where that is plain from what stands above. */
export function layerName(layer: string, isAlone = false): string {
  const [, stem = "", place = ""] = /^(.+)\.(\d+)$/.exec(layer) ?? [];
  if (place === "") return layer;
  if (isAlone) return t("layerAlone", { place });
  return t("layer", { stem: stem === "encoder" || stem === "decoder" ? t(stem) : stem, place });
}
