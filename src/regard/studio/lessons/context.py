"""Context decides: transformer in two sentences, it in two sentences, and boy, which needs no context."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.scores import Dot
from regard.studio.lessons.blocks import (
    LessonEntry,
    attend_with_weights,
    both,
    chart,
    control,
    formula,
    matrix,
    nearest_choice,
    number,
    question,
    same,
    series,
    text,
)
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import ChartBlock, LessonBlock


@dataclass(frozen=True, kw_only=True)
class WordInContext:
    """A word of a sentence, and how strongly each content word suggests each of its meanings.

    own: what the word alone suggests. query: which hints it matches.
    """

    sentence: str
    word: str
    words: tuple[str, ...]
    hints: tuple[tuple[float, float], ...]
    own: tuple[float, float] = (0.0, 0.0)
    query: tuple[float, float] = (1.0, 1.0)

    def attend(self) -> tuple[Float[Tensor, " K"], Float[Tensor, " 2"]]:
        """Weights and context of the word; every other content word is a key and a value."""
        # (1, 2): a single query
        weights, context = attend_with_weights(torch.tensor([self.query]), torch.tensor(self.hints), score=Dot())
        return weights[0], context[0]

    def probabilities(self, *shares: float) -> Float[Tensor, "N 2"]:
        """The two meanings, from the word itself plus each of these shares of its context."""
        _, context = self.attend()
        return torch.softmax(torch.tensor(self.own) + torch.tensor(shares)[:, None] * context, dim=-1)


POWER, MODEL = both("变压器 (electrical)", "变压器"), both("Transformer (the model)", "Transformer（模型）")
CAT, MILK = both("cat", "猫（cat）"), both("milk", "牛奶（milk）")
BOY, OTHER = both("男孩 (boy)", "男孩"), both("another meaning", "别的意思")
FALLEN = WordInContext(
    sentence="Several distributor transformers had fallen from the poles, and secondary wires were down.",
    word="transformers",
    words=("distributor", "fallen", "poles", "secondary", "wires"),
    hints=((1.0, 0.0), (1.5, 0.0), (3.0, 0.0), (0.5, 0.0), (3.0, 0.0)),
)
WIDELY_USED = WordInContext(
    sentence="Transformer models have emerged as the most widely used architecture in applications such as natural "
    "language processing and image classification.",
    word="Transformer",
    words=("models", "architecture", "language", "processing", "image", "classification"),
    hints=((0.0, 3.0), (0.5, 1.5), (0.0, 2.0), (0.5, 1.0), (0.0, 1.0), (0.0, 2.0)),
)
HUNGRY = WordInContext(
    sentence="The cat drank the milk because it was hungry.",
    word="it",
    words=("cat", "drank", "milk", "hungry"),
    hints=((3.0, 0.0), (0.5, 0.5), (0.0, 3.0), (1.0, 0.0)),
    query=(1.0, 0.0),
)
SWEET = WordInContext(
    sentence="The cat drank the milk because it was sweet.",
    word="it",
    words=("cat", "drank", "milk", "sweet"),
    hints=((3.0, 0.0), (0.5, 0.5), (0.0, 3.0), (0.0, 1.0)),
    query=(0.0, 1.0),
)
EATING = WordInContext(
    sentence="A boy is eating the banana.",
    word="boy",
    words=("eating", "banana"),
    hints=((0.5, 0.0), (0.0, 0.0)),
    own=(5.0, 0.0),
)
MAX_SHARE = 3.0

CONTROLS = (
    control("share", both("Share r of the context", "上下文的系数 r"), low=0.0, high=MAX_SHARE, step=0.25, value=1.0),
)

INTRODUCTION = text(
    "The same word means different things: it depends on the words around it. Here every word has two numbers: how "
    "strongly it suggests either of two meanings. These vectors are set by hand; in a trained model they are learned, "
    "and the weights are less tidy.",
    "同一个词可以有不同的意思，要看它周围的词。这里每个词有两个数，分别表示它对两种意思的提示有多强。"
    "这些向量是手工设定的；真实模型里它们是学出来的，权重也没有这么整齐。",
)
FORMULA = formula(r"c = \sum_j \mathrm{softmax}_j(q \cdot k_j)\, v_j, \qquad P = \mathrm{softmax}(x + r\, c)")
CLOSING = text(
    "So attention also distributes a resource: a word that needs no context keeps its meaning, and one that needs it "
    "takes it from the words that matter, at any distance.",
    "所以注意力也是一种资源分配：不需要上下文的词保持原意；需要的词，则从真正相关的词那里取得信息，无论距离多远。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Two pairs of sentences and a single one."""
    share = settings["share"]
    return [
        INTRODUCTION,
        sentences_of(FALLEN, WIDELY_USED),
        matters_most(WIDELY_USED),
        *map(weights_of, (FALLEN, WIDELY_USED)),
        FORMULA,
        meanings((FALLEN, WIDELY_USED), (POWER, MODEL), share),
        sentences_of(HUNGRY, SWEET),
        refers_to(SWEET, share),
        *map(weights_of, (HUNGRY, SWEET)),
        meanings((HUNGRY, SWEET), (CAT, MILK), share),
        curves(),
        sentences_of(EATING),
        needs_context(share),
        meanings((EATING,), (BOY, OTHER), share),
        CLOSING,
    ]


def sentences_of(*examples: WordInContext) -> LessonBlock:
    """The sentences as a paragraph."""
    word = examples[-1].word
    if len(examples) == 1:
        english = chinese = f"{examples[0].sentence} "
    else:
        numbered = list(enumerate(examples, start=1))
        english = "".join(f"({position}) {one.sentence} " for position, one in numbered)
        chinese = "".join(f"（{position}）{one.sentence} " for position, one in numbered)
    return text(f"{english}What does `{word}` mean?", f"{chinese}这里的 `{word}` 是什么意思？")


def weights_of(example: WordInContext) -> LessonBlock:
    """The weights of the word."""
    weights, _ = example.attend()
    ending = example.words[-1]
    return matrix(
        both(f"Weights of {example.word} ({ending})", f"{example.word} 的权重（{ending}）"),
        [example.word],
        example.words,
        weights[None],
    )


def matters_most(example: WordInContext) -> LessonBlock:
    """Which word has the most weight?"""
    weights, _ = example.attend()
    best = int(weights.argmax())
    return question(
        both(
            f"Which word has the most weight for {example.word} in sentence (2)?",
            f"第（2）句里，{example.word} 对哪个词的权重最大？",
        ),
        list(map(same, example.words)),
        best,
        both(
            f"{example.words[best]}: {number(weights[best])}. It suggests one meaning most strongly.",
            f"{example.words[best]}：{number(weights[best])}。它对其中一种意思的提示最强。",
        ),
    )


def meanings(
    examples: Sequence[WordInContext], names: tuple[LocalizedText, LocalizedText], share: float
) -> LessonBlock:
    """The probabilities of both meanings without and with the context."""
    rows = [
        both(f"{one.word} .. {one.words[-1]}, r = {factor:g}", f"{one.word} …… {one.words[-1]}，r = {factor:g}")
        for one in examples
        for factor in (0.0, share)
    ]
    values = torch.cat([one.probabilities(0.0, share) for one in examples])
    return matrix(both("P(meaning)", "P(意思)"), rows, names, values)


def refers_to(example: WordInContext, share: float) -> LessonBlock:
    """Which noun does `it` stand for?"""
    before, after = example.probabilities(0.0, share)
    names = (CAT, MILK, both("both equally", "两者相同"))
    # at r = 0 the context has no effect
    is_equal = bool(torch.isclose(after[0], after[1]))
    best = 2 if is_equal else int(after.argmax())
    return question(
        both(
            f"In sentence (2), with r = {share:g}: which noun is more probable for `it`?",
            f"第（2）句，r = {share:g} 时：`it` 更可能指哪个名词？",
        ),
        list(names),
        best,
        both(
            f"Milk has probability {number(before[1])} without the context and {number(after[1])} with it. The query "
            "of `it` is set here by the last word, hungry or sweet; in a model an earlier layer carries it there.",
            f"没有上下文时“牛奶”的概率是 {number(before[1])}，加上上下文后是 {number(after[1])}。"
            "这里 `it` 的查询由句末的词（hungry 或 sweet）设定；在真实模型里，由前面的层把它传过来。",
        ),
    )


def needs_context(share: float) -> LessonBlock:
    """How much does the context change for boy?"""
    before, after = EATING.probabilities(0.0, share)[:, 0]
    change = float((after - before).abs())
    choices = [0.0, 0.25, 0.5]
    return question(
        both(
            "By how much does the context change the probability that `boy` means 男孩?",
            "上下文让 `boy` 译成“男孩”的概率改变多少？",
        ),
        [both(f"by about {choice:g}", f"大约 {choice:g}") for choice in choices],
        nearest_choice(choices, change),
        both(
            f"From {number(before, 3)} to {number(after, 3)}: the word alone is clear, so it can be translated before "
            "the sentence ends.",
            f"从 {number(before, 3)} 到 {number(after, 3)}：这个词本身就很明确，不必等句子结束就能翻译。",
        ),
    )


def curves() -> ChartBlock:
    """The probability of the first meaning by the share of the context."""
    shares = torch.linspace(0, MAX_SHARE, 25)
    lines = (
        (both("transformers: electrical (1)", "transformers 指变压器（1）"), FALLEN),
        (both("Transformer: electrical (2)", "Transformer 指变压器（2）"), WIDELY_USED),
        (both("it: cat (hungry)", "it 指猫（hungry）"), HUNGRY),
        (both("it: cat (sweet)", "it 指猫（sweet）"), SWEET),
    )
    return chart(
        both("Probability by the share of the context", "概率随上下文系数的变化"),
        same("r"),
        both("probability", "概率"),
        *(series(label, shares, one.probabilities(*shares.tolist())[:, 0], points=False) for label, one in lines),
    )


LESSON = LessonEntry(
    title=both("Context decides: transformer, it, boy", "上下文决定词义：transformer、it 与 boy"),
    summary=both(
        "The same word in two sentences; cat or milk; and a word that needs no context.",
        "两个句子里的同一个词；指猫还是指牛奶；以及不需要上下文的词。",
    ),
    controls=CONTROLS,
    build=build,
    code=(attend, Dot),
)
