// What the pointer does on a heat map: point at a cell, pick it, drag the window, zoom with Ctrl and the wheel.
import type { Cell } from "./heat";

export type Acts = {
  find: (x: number, y: number) => Cell | null;
  hover: (cell: Cell | null, x: number, y: number) => void;
  pick: (cell: Cell) => void;
  zoom: (factor: number, cell: Cell) => void;
  canPan: () => boolean;
  pan: (x: number, y: number) => void;
};

const STILL = 4;

export function followPointer(element: HTMLElement, acts: Acts): void {
  let drag: { x: number; y: number; moved: boolean } | null = null;

  element.addEventListener("pointerdown", ({ offsetX: x, offsetY: y }) => {
    drag = { x, y, moved: false };
  });
  element.addEventListener("pointermove", ({ offsetX: x, offsetY: y, buttons }) => {
    if (!drag || buttons !== 1 || !acts.canPan()) return acts.hover(acts.find(x, y), x, y);
    if (!drag.moved && Math.hypot(x - drag.x, y - drag.y) < STILL) return;
    acts.pan(x - drag.x, y - drag.y);
    drag = { x, y, moved: true };
  });
  element.addEventListener("pointerleave", () => acts.hover(null, 0, 0));
  element.addEventListener("click", (event) => {
    const cell = acts.find(event.offsetX, event.offsetY);
    if (cell && !drag?.moved) acts.pick(cell);
    drag = null;
  });
  element.addEventListener(
    "wheel",
    (event) => {
      const cell = acts.find(event.offsetX, event.offsetY);
      if (!cell || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      acts.zoom(event.deltaY < 0 ? 1.25 : 0.8, cell);
    },
    { passive: false },
  );
}
