// Names of layers: `encoder.0` is layer 0 of the encoder, counted from 0 as in addresses.
import { axisTitle } from "../../lib/sites";
import type { Inspection } from "../../lib/types";
import { t } from "../texts/heads";

function partsOf(layer: string): { stem: string; position: string } {
  const [, stem = layer, position = ""] = /^(.+)\.(\d+)$/.exec(layer) ?? [];
  // a model with one stack needs no name for it
  if (stem === "layers" || stem === "cells") return { stem: "", position };
  return { stem: stem === "encoder" || stem === "decoder" ? t(stem) : stem, position };
}

/** The axes of a group of heads, by their titles. */
export function groupName(inspection: Inspection, { queries, keys }: { queries: string; keys: string }): string {
  return t("axes", { queries: axisTitle(inspection, queries), keys: axisTitle(inspection, keys) });
}

export function layerName(layer: string): string {
  const parts = partsOf(layer);
  if (parts.position === "") return parts.stem;
  return parts.stem === "" ? t("layerAlone", parts) : t("layer", parts);
}

/** The layer without its stem, which the heading has. */
export function layerAlone(layer: string): string {
  const { stem, position } = partsOf(layer);
  return position === "" ? stem : t("layerAlone", { position });
}
