// The selection of all screens, which is part of the URL.
import { changed, fromHash, toHash, type Selection } from "./address";

export { SCREENS, type Screen, type Selection } from "./address";

const WRITE_AFTER = 150;

export const selection: Selection = $state(fromHash(location.hash));
let pending: ReturnType<typeof setTimeout> | undefined;

addEventListener("popstate", readAddress);
addEventListener("hashchange", readAddress);

/**
 * Changes the selection and writes it to the URL: as a new entry of the history, or in place of the current one.
 * A new model clears site, head and indices; a new text output and indices; a new site head and indices; a new
 * screen `extra` - unless the changes set them. `extra` and `others` are replaced as a whole.
 */
export function go(changes: Partial<Selection>, options: { replace?: boolean } = {}): void {
  const before = $state.snapshot(selection);
  Object.assign(selection, changed(before, changes));
  const hash = toHash($state.snapshot(selection));
  clearTimeout(pending);
  if (options.replace) {
    pending = setTimeout(() => history.replaceState(null, "", hash), WRITE_AFTER);
    return;
  }
  history.replaceState(null, "", toHash(before));
  if (hash !== toHash(before)) history.pushState(null, "", hash);
}

/** The address of the selection with some changes, for links. */
export function href(changes: Partial<Selection>): string {
  return toHash(changed($state.snapshot(selection), changes));
}

function readAddress(): void {
  clearTimeout(pending);
  if (location.hash !== toHash($state.snapshot(selection))) Object.assign(selection, fromHash(location.hash));
}
