// The access token from the address that `regard studio` printed, stored for this tab.
import { readStored, store } from "./storage";

const KEY = "regard.token";

export function token(): string {
  const fromAddress = new URLSearchParams(location.search).get("token");
  if (fromAddress) store(KEY, fromAddress, "session");
  return fromAddress ?? readStored(KEY, "session") ?? "";
}
