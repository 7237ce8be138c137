// Copies a text to the clipboard; if the browser does not allow it, selects the element with the text.
export async function copyText(text: string, element: HTMLElement | undefined): Promise<boolean> {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    if (element) getSelection()?.selectAllChildren(element);
    return false;
  }
}
