// Puts a text on the clipboard; where the browser does not allow it, selects the element that shows it.
export async function copyText(text: string, shownIn: HTMLElement | undefined): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    if (shownIn) getSelection()?.selectAllChildren(shownIn);
    return false;
  }
}
