// The sentences of the server in Chinese, where the page knows the kind of error; the others keep their English.
import { language } from "../../lib/language.svelte";
import { t } from "../texts/shared";

/** A sentence of the server, whole or its first part, and the same in Chinese. */
const CHINESE: [RegExp, string][] = [
  [/^the text has no tokens\./, "文本中没有词元。请输入一个词。"],
  [/^there is no model called '(.*?)'/, "没有名为“$1”的模型。"],
  [/^there is no run called '(.*?)'/, "没有名为“$1”的训练。"],
  [/^there is no lesson called '(.*?)'/, "没有名为“$1”的课程。"],
  [/^there is no experiment called '(.*?)'/, "没有名为“$1”的实验。"],
  [/^the inspection '.*?' is no longer cached/, "这次计算的结果已不在缓存中，请重新计算。"],
  [/^(.*?) has no attention at '(.*?)'/, "$1 在 $2 处没有注意力。"],
  [/^(.*?) has (\d+) heads, counted from 0; there is no head (\d+)/, "$1 有 $2 个头，从 0 数起，没有头 $3。"],
  [/^(?:(.*?) has|there are) (\d+) queries, counted from 0; there is no query (\d+)/, "$1 共有 $2 个查询，从 0 数起，没有查询 $3。"],
  [/^there are (\d+) tokens, counted from 0; there is no token (\d+)/, "共有 $1 个词元，从 0 数起，没有词元 $2。"],
  [/^there is no key (\d+); there are (\d+)/, "共有 $2 个键，从 0 数起，没有键 $1。"],
  [/^there is no dimension (\d+); there are (\d+)/, "共有 $2 维，从 0 数起，没有维度 $1。"],
  [/^(score|align|mask|position) (.*?) cannot be used here: /, "此处不能使用 $2，请选择另一项。"],
  [/^there is no (?:score|align|mask|position) called '(.*?)'/, "没有名为“$1”的选项。"],
  [/^(\d+) tokens give ([\d,]+) million numbers in all heads, and the limit is ([\d,]+) million/, "$1 个词元在所有头中共有 $2 百万个数，上限为 $3 百万。请缩短文本。"],
  [/^(.*?) has no output to (?:change|predict)\./, "$1 没有输出。请选择一个训练过的模型。"],
  [/^(.*?) does not generate text token by token/, "$1 不能逐个词元地生成文本。"],
  [/^(.*?) gives probabilities that are not finite/, "$1 给出的概率不是有限的数，请重新训练。"],
  [/^the model gives no probabilities: its weights are broken/, "模型没有给出概率：它的参数已损坏，请重新训练。"],
  [/^the log-probability of this output is (.*?): the model's weights are broken/, "这个输出的对数概率为 $1：模型的参数已损坏，请重新训练。"],
  [/^a language model has no output apart from its text/, "语言模型除文本外没有输出，不能指定。"],
  [/^a classifier takes no output/, "分类器只在它的类别中预测，不能指定输出。"],
  [/^a worked example has no output/, "例题没有输出。"],
  [/^(.*?) cannot be loaded: /, "无法加载 $1。"],
  [/^(\w+) is (.*?), which is out of range\. Choose a number from (.*?) to (.*?)\.$/, "$1 为 $2，超出范围。请选择 $3 到 $4 之间的数。"],
  [/^(\w+) is (.*?), but it is a count\. Choose a whole number from (.*?) to (.*?)\.$/, "$1 为 $2，但这里需要整数。请选择 $3 到 $4 之间的整数。"],
  [/^there is no control '(.*?)'/, "没有名为“$1”的参数。"],
  [/^hidden_size (\d+) is not divisible by num_heads (\d+)/, "隐藏维度 $1 不能被头数 $2 整除。"],
  [/^no run of '(.*?)' with these settings waits or computes/, "没有使用这些参数、正在等待或运行的实验“$1”。"],
  [/^(\d+) experiments already wait or run/, "已有 $1 个实验在等待或运行。请取消一个，或稍后再试。"],
  [/^The server cannot be reached\.$/, "无法连接服务器。"],
];

/** The detail of a problem in the language of the page. */
export function detailOf(detail: string): string {
  if (language.now === "en") return detail;
  for (const [pattern, chinese] of CHINESE) {
    const match = pattern.exec(detail);
    if (match) return chinese.replace(/\$(\d)/g, (_, group: string) => match[Number(group)] ?? "").trim();
  }
  return t("serverSays", { detail });
}
