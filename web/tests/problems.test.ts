// Sentences of the server on a Chinese page.
import { expect, it, vi } from "vitest";

vi.stubGlobal("navigator", { language: "zh-CN" });
const { detailOf } = await import("../src/screens/shared/problems");
const { language } = await import("../src/lib/language.svelte");

it.each([
  ["the text has no tokens. Type a word.", "文本中没有词元。请输入一个词。"],
  ["there is no model called 'gpt5'. The nearest is 'gpt'.", "没有名为“gpt5”的模型。"],
  ["attention has 4 queries, counted from 0; there is no query 9.", "attention 共有 4 个查询，从 0 数起，没有查询 9。"],
  ["there are 4 queries, counted from 0; there is no query 9.", "共有 4 个查询，从 0 数起，没有查询 9。"],
  ["align ratio cannot be used here: it needs positive scores. Choose another.", "此处不能使用 ratio，请选择另一项。"],
  ["repeats is 2.5, but it is a count. Choose a whole number from 2 to 8.", "repeats 为 2.5，但这里需要整数。请选择 2 到 8 之间的整数。"],
  ["hidden_size 64 is not divisible by num_heads 7. Choose a head count that divides it.", "隐藏维度 64 不能被头数 7 整除。"],
  ["8 experiments already wait or run. Cancel one, or try again later.", "已有 8 个实验在等待或运行。请取消一个，或稍后再试。"],
  [
    "4000 tokens give 1,024 million numbers in all heads, and the limit is 128 million. Shorten the text.",
    "4000 个词元在所有头中共有 1,024 百万个数，上限为 128 百万。请缩短文本。",
  ],
])("translates %s", (detail, chinese) => expect(detailOf(detail)).toBe(chinese));

it("keeps a sentence that it does not know, and says that it is English", () => {
  expect(detailOf("CUDA is out of memory.")).toBe("服务器的说明（英文）：CUDA is out of memory.");
});

it("leaves English pages as they are", () => {
  language.now = "en";
  expect(detailOf("the text has no tokens. Type a word.")).toBe("the text has no tokens. Type a word.");
});
