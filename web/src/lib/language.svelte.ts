// The language of the page, English or Chinese, and its texts by key.
import { readStored, store } from "./storage";

export type Language = "en" | "zh";
type Values = Record<string, string | number>;
type Table<Key extends string> = { en: Record<Key, string>; zh: Record<NoInfer<Key>, string> };
type Translate<Key extends string> = ((key: Key, values?: Values) => string) & { table: Table<Key> };

const KEY = "regard.language";
let now: Language = $state(first());

export const language = {
  get now(): Language {
    return now;
  },
  set now(value: Language) {
    now = value;
    store(KEY, value);
  },
};

/** A text from the server in the language of the page. */
export function localized(text: Record<Language, string>): string {
  return text[now];
}

/** The texts of a screen: `t("key", {name: value})` fills {name}; both languages have the same keys. */
export function texts<Key extends string>(table: Table<Key>): Translate<Key> {
  return Object.assign((key: Key, values: Values = {}) => fill(table[now][key], values), { table });
}

function fill(text: string, values: Values): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole));
}

function first(): Language {
  const stored = readStored(KEY);
  if (stored === "en" || stored === "zh") return stored;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}
