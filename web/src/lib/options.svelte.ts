// What the reader set for good: theme and raw tokens; and what the system prefers.
import { recall, remember } from "./memory";

export type Theme = "auto" | "light" | "dark";

const THEME = "regard.theme";
const RAW = "regard.raw";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const systemStill = matchMedia("(prefers-reduced-motion: reduce)");

let raw = $state(recall(RAW) === "yes");
let theme: Theme = $state(kept());
let darkBySystem = $state(systemDark.matches);
let still = $state(systemStill.matches);

systemDark.addEventListener("change", (event) => (darkBySystem = event.matches));
systemStill.addEventListener("change", (event) => (still = event.matches));

export const options = {
  get raw(): boolean {
    return raw;
  },
  set raw(value: boolean) {
    raw = value;
    remember(RAW, value ? "yes" : "no");
  },
  get theme(): Theme {
    return theme;
  },
  set theme(value: Theme) {
    theme = value;
    remember(THEME, value);
  },
  /** Whether the page is dark now. */
  get dark(): boolean {
    return theme === "auto" ? darkBySystem : theme === "dark";
  },
  /** Whether the reader wants no motion. */
  get still(): boolean {
    return still;
  },
};

function kept(): Theme {
  const value = recall(THEME);
  return value === "light" || value === "dark" ? value : "auto";
}
