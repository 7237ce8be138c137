// Stored options, theme and raw tokens, and the preferences of the system.
import { readStored, store } from "./storage";

export type Theme = "auto" | "light" | "dark";

const THEME = "regard.theme";
const RAW = "regard.raw";
const systemDark = matchMedia("(prefers-color-scheme: dark)");
const systemReducedMotion = matchMedia("(prefers-reduced-motion: reduce)");

let raw = $state(readStored(RAW) === "yes");
let theme: Theme = $state(storedTheme());
let darkBySystem = $state(systemDark.matches);
let reducedMotion = $state(systemReducedMotion.matches);

systemDark.addEventListener("change", (event) => (darkBySystem = event.matches));
systemReducedMotion.addEventListener("change", (event) => (reducedMotion = event.matches));

export const options = {
  get raw(): boolean {
    return raw;
  },
  set raw(value: boolean) {
    raw = value;
    store(RAW, value ? "yes" : "no");
  },
  get theme(): Theme {
    return theme;
  },
  set theme(value: Theme) {
    theme = value;
    store(THEME, value);
  },
  /** True if the page is dark. */
  get dark(): boolean {
    return theme === "auto" ? darkBySystem : theme === "dark";
  },
  /** True if the system asks for reduced motion. */
  get reducedMotion(): boolean {
    return reducedMotion;
  },
};

function storedTheme(): Theme {
  const value = readStored(THEME);
  return value === "light" || value === "dark" ? value : "auto";
}
