// The browser's storage; where it is forbidden or full, reading gives null and writing does nothing.
type Kind = "local" | "session";

function storage(kind: Kind): Storage {
  return kind === "local" ? localStorage : sessionStorage;
}

export function readStored(key: string, kind: Kind = "local"): string | null {
  try {
    return storage(kind).getItem(key);
  } catch {
    return null;
  }
}

export function store(key: string, value: string, kind: Kind = "local"): void {
  try {
    storage(kind).setItem(key, value);
  } catch {
    return;
  }
}
