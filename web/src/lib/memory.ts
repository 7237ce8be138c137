// The browser's storage, guarded: where it is forbidden or full, nothing is remembered and nothing breaks.
type Kind = "local" | "session";

function storage(kind: Kind): Storage {
  return kind === "local" ? localStorage : sessionStorage;
}

export function recall(key: string, kind: Kind = "local"): string | null {
  try {
    return storage(kind).getItem(key);
  } catch {
    return null;
  }
}

export function remember(key: string, value: string, kind: Kind = "local"): void {
  try {
    storage(kind).setItem(key, value);
  } catch {
    return;
  }
}
