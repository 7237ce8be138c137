// What heads are called: `encoder.0` is layer 0 of the encoder, counted from 0 as in addresses.
import { t } from "../words/heads";

function partsOf(layer: string): { stem: string; place: string } {
  const [, stem = layer, place = ""] = /^(.+)\.(\d+)$/.exec(layer) ?? [];
  return { stem: stem === "encoder" || stem === "decoder" ? t(stem) : stem, place };
}

export function layerName(layer: string): string {
  const parts = partsOf(layer);
  return parts.place === "" ? parts.stem : t("layer", parts);
}

/** The layer without its stem, which is plain from what stands above. */
export function layerAlone(layer: string): string {
  const { stem, place } = partsOf(layer);
  return place === "" ? stem : t("layerAlone", { place });
}
