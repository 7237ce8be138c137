// What heads are called: `encoder.0` is layer 0 of the encoder, counted from 0 as in addresses.
import { t } from "../words/heads";

export function layerName(layer: string): string {
  const found = /^(.+)\.(\d+)$/.exec(layer);
  return found ? t("layer", { stem: found[1] ?? "", place: found[2] ?? "" }) : layer;
}
