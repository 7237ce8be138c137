// The one selection that drives every screen and lives in the URL.
import { changed, fromHash, toHash, type Selection } from "./address";

export { SCREENS, type Screen, type Selection } from "./address";

const WRITE_AFTER = 150;

export const selection: Selection = $state(fromHash(location.hash));
let pending: ReturnType<typeof setTimeout> | undefined;

addEventListener("popstate", readAddress);
addEventListener("hashchange", readAddress);

/**
 * Changes the selection and writes it to the URL: a new entry of the history, or `replace` the present one.
 * A new model lets go of site, head and indices; a new text of output and indices; a new site of head and
 * indices; a new screen of `extra` - unless the changes name them too. `extra` and `others` are replaced as a whole.
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
