// Both languages have the same keys with the same placeholders, on every screen.
import { expect, it, vi } from "vitest";

vi.stubGlobal("navigator", { language: "en" });
type Table = { en: Record<string, string>; zh: Record<string, string> };

const files = import.meta.glob<Record<string, unknown>>("../src/screens/texts/*.ts");
const holes = (text: string) => [...text.matchAll(/\{(\w+)\}/g)].map((match) => match[1]).sort();

function hasTable(value: unknown): value is { table: Table } {
  return typeof value === "function" && "table" in value;
}

it.each(Object.entries(files))("%s", async (_, load) => {
  const tables = Object.values(await load()).filter(hasTable);
  expect(tables.length).toBeGreaterThan(0);
  for (const { table: value } of tables) {
    expect(Object.keys(value.zh).sort()).toEqual(Object.keys(value.en).sort());
    for (const [key, text] of Object.entries(value.en)) {
      expect(text.trim(), key).not.toBe("");
      expect(value.zh[key]?.trim(), key).not.toBe("");
      expect(holes(value.zh[key] ?? ""), key).toEqual(holes(text));
    }
  }
});

/** Words that STYLE has replaced: one Chinese word for one thing. */
const REPLACED = ["打分", "源文", "原文", "谓词", "仅填充", "状态相承", "朴素", "内核"];

it.each(Object.entries(files))("%s has one word for one thing", async (_, load) => {
  const chinese = Object.values(await load())
    .filter(hasTable)
    .flatMap(({ table }) => Object.values(table.zh));
  for (const word of REPLACED) expect(chinese.filter((text) => text.includes(word))).toEqual([]);
  // a colon after Chinese is as wide as a character
  expect(chinese.filter((text) => /[\u4e00-\u9fff]:/u.test(text))).toEqual([]);
});
