// The whole timeline as a file: drawn at one width wherever it is saved, with nothing selected.
import { mount, tick, unmount } from "svelte";
import { savePng, saveSvg } from "../../lib/exports";
import type { Milestone } from "../../lib/types";
import Picture from "./Picture.svelte";

const WIDTH = 1280;
const NAME = "attention-timeline";

export async function saveTimeline(items: Milestone[], kind: "png" | "svg"): Promise<void> {
  const target = document.body.appendChild(document.createElement("div"));
  target.setAttribute("style", "position: fixed; left: -9999px; top: 0");
  target.inert = true;
  const drawn = mount(Picture, { target, props: { items, width: WIDTH } });
  try {
    await tick();
    const svg = target.querySelector("svg");
    if (svg && kind === "png") await savePng(svg, NAME);
    else if (svg) saveSvg(svg, NAME);
  } finally {
    await unmount(drawn);
    target.remove();
  }
}
