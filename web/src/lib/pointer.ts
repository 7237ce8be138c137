// Pointer events of a heat map: hover, pick, drag to pan, Ctrl and wheel to zoom.
import type { Cell } from "./heat";

export type Handlers = {
  find: (x: number, y: number) => Cell | null;
  hover: (cell: Cell | null, x: number, y: number) => void;
  pick: (cell: Cell) => void;
  zoom: (factor: number, cell: Cell) => void;
  canPan: () => boolean;
  pan: (x: number, y: number) => void;
};

const CLICK_TOLERANCE = 4;

export function followPointer(element: HTMLElement, handlers: Handlers): void {
  let drag: { x: number; y: number; isPanning: boolean } | null = null;

  element.addEventListener("pointerdown", ({ offsetX: x, offsetY: y }) => {
    drag = { x, y, isPanning: false };
  });
  element.addEventListener("pointermove", ({ offsetX: x, offsetY: y, buttons }) => {
    if (!drag || buttons !== 1 || !handlers.canPan()) return handlers.hover(handlers.find(x, y), x, y);
    if (!drag.isPanning && Math.hypot(x - drag.x, y - drag.y) < CLICK_TOLERANCE) return;
    handlers.pan(x - drag.x, y - drag.y);
    drag = { x, y, isPanning: true };
  });
  element.addEventListener("pointerleave", () => handlers.hover(null, 0, 0));
  element.addEventListener("click", (event) => {
    const cell = handlers.find(event.offsetX, event.offsetY);
    if (cell && !drag?.isPanning) handlers.pick(cell);
    drag = null;
  });
  element.addEventListener(
    "wheel",
    (event) => {
      const cell = handlers.find(event.offsetX, event.offsetY);
      if (!cell || !(event.ctrlKey || event.metaKey)) return;
      event.preventDefault();
      handlers.zoom(event.deltaY < 0 ? 1.25 : 0.8, cell);
    },
    { passive: false },
  );
}
