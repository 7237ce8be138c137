// English and Chinese: the language of the page, and words by key.
import { recall, remember } from "./memory";

export type Language = "en" | "zh";
type Values = Record<string, string | number>;
type Table<Key extends string> = { en: Record<Key, string>; zh: Record<NoInfer<Key>, string> };
type Say<Key extends string> = ((key: Key, values?: Values) => string) & { table: Table<Key> };

const KEY = "regard.language";
let now: Language = $state(first());

export const language = {
  get now(): Language {
    return now;
  },
  set now(value: Language) {
    now = value;
    remember(KEY, value);
  },
};

/** A text of the server's in the language of the page. */
export function localized(text: Record<Language, string>): string {
  return text[now];
}

/** The words of a screen: `t("key", {name: value})` fills {name}; both languages have the same keys. */
export function texts<Key extends string>(table: Table<Key>): Say<Key> {
  return Object.assign((key: Key, values: Values = {}) => fill(table[now][key], values), { table });
}

function fill(text: string, values: Values): string {
  return text.replace(/\{(\w+)\}/g, (whole, name: string) => (name in values ? String(values[name]) : whole));
}

function first(): Language {
  const kept = recall(KEY);
  if (kept === "en" || kept === "zh") return kept;
  return navigator.language.toLowerCase().startsWith("zh") ? "zh" : "en";
}
