// The token that lets the page in: from the address that `regard studio` printed, kept for this tab.
import { recall, remember } from "./memory";

const KEY = "regard.token";

export function token(): string {
  const given = new URLSearchParams(location.search).get("token");
  if (given) remember(KEY, given, "session");
  return given ?? recall(KEY, "session") ?? "";
}
