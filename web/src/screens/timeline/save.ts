// The timeline as a file, at a fixed width and without a selection.
import { mount, tick, unmount } from "svelte";
import { savePng, saveSvg } from "../../lib/exports";
import type { Milestone } from "../../lib/types";
import Picture from "./Picture.svelte";

const WIDTH = 1280;
const NAME = "attention-timeline";

export async function saveTimeline(items: Milestone[], format: "png" | "svg"): Promise<void> {
  const target = document.body.appendChild(document.createElement("div"));
  target.setAttribute("style", "position: fixed; left: -9999px; top: 0");
  target.inert = true;
  const component = mount(Picture, { target, props: { items, width: WIDTH } });
  try {
    await tick();
    const svg = target.querySelector("svg");
    if (svg && format === "png") await savePng(svg, NAME);
    else if (svg) saveSvg(svg, NAME);
  } finally {
    await unmount(component);
    target.remove();
  }
}
