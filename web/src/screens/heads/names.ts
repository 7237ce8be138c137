// What heads are called: `encoder.0` is layer 0 of the encoder, counted from 0 as in addresses.
import type { HeadCard, Look } from "../../lib/types";
import { t } from "../words/heads";

function partsOf(layer: string): { stem: string; place: string } {
  const [, stem = layer, place = ""] = /^(.+)\.(\d+)$/.exec(layer) ?? [];
  // a system of one stack has nothing to tell its layers from
  if (stem === "layers" || stem === "cells") return { stem: "", place };
  return { stem: stem === "encoder" || stem === "decoder" ? t(stem) : stem, place };
}

/** What the heads of a kind do, in a system that translates, reads on or sorts. */
export function groupName(kind: HeadCard["kind"], of: Look["kind"]): string {
  if (of === "language") return t("textKind");
  if (of === "sentences") return t(kind === "cross" ? "rowsKind" : "wordsKind");
  return t(`${kind}Kind`);
}

export function layerName(layer: string): string {
  const parts = partsOf(layer);
  if (parts.place === "") return parts.stem;
  return parts.stem === "" ? t("layerAlone", parts) : t("layer", parts);
}

/** The layer without its stem, which is plain from what stands above. */
export function layerAlone(layer: string): string {
  const { stem, place } = partsOf(layer);
  return place === "" ? stem : t("layerAlone", { place });
}
