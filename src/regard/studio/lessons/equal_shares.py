"""How are you, I love you: one vector gives every source word an equal share, attention does not."""

from collections.abc import Mapping
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
    glossed,
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
class SentencePair:
    """Two sentences, and for each target word the source word of its meaning; None if there is none."""

    source: tuple[str, ...]
    target: tuple[str, ...]
    glosses: tuple[str, ...]
    aligned: tuple[int | None, ...]

    @property
    def names(self) -> list[LocalizedText]:
        """The target words, in English with their meaning."""
        return [glossed(word, gloss) for word, gloss in zip(self.target, self.glosses, strict=True)]

    @property
    def keys(self) -> Float[Tensor, "S S"]:
        """One-hot source words."""
        return torch.eye(len(self.source))

    @property
    def queries(self) -> Float[Tensor, "T S"]:
        """The key of the aligned word; zeros for a word without one."""
        zeros = torch.zeros(len(self.source))
        return torch.stack([zeros if word is None else self.keys[word] for word in self.aligned])

    def weights(self, sharpness: float) -> Float[Tensor, "T S"]:
        """The attention of every target word to the source."""
        return attend_with_weights(sharpness * self.queries, self.keys, score=Dot())[0]


LOVE = SentencePair(
    source=("I", "love", "you"), target=("我", "爱", "你"), glosses=("I", "love", "you"), aligned=(0, 1, 2)
)
GREETING = SentencePair(
    source=("how", "are", "you"), target=("你", "好", "吗"), glosses=("you", "well", "?"), aligned=(2, 0, None)
)
ALL_EQUAL, SHARPEST = 0.0, 6.0

CONTROLS = (
    control(
        "sharpness",
        both("Sharpness β of attention", "注意力的锐度 β"),
        low=ALL_EQUAL,
        high=SHARPEST,
        step=0.5,
        value=4.0,
    ),
)

INTRODUCTION = text(
    "I love you: 我爱你. An encoder that ends in one vector, here the mean of the words, hands the decoder the same "
    "vector at every step.",
    "I love you：我爱你。如果编码器最后只给出一个向量（这里取各词的平均），解码器每一步得到的都是同一个向量。",
)
FORMULA = formula(
    r"c = \frac{1}{S} \sum_j x_j \qquad c_t = \sum_j w_{tj}\, x_j, \quad "
    r"w_{tj} = \mathrm{softmax}_j(\beta\, q_t \cdot k_j)"
)
CLOSING = text(
    "The keys here are one-hot words, and each query is set by hand to the key of its word. A trained model learns the "
    "queries from sentence pairs alone, without labels for which word belongs to which.",
    "这里的键是 one-hot 词向量，每个查询都手工设成对应词的键。真实模型只靠句对就能学出查询，"
    "不需要标注哪个词对应哪个词。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Equal shares, attention, and a word without a counterpart."""
    sharpness = settings["sharpness"]
    equal, weights = LOVE.weights(ALL_EQUAL), LOVE.weights(sharpness)
    greeting = GREETING.weights(sharpness)
    return [
        INTRODUCTION,
        share_question(equal),
        matrix(both("Equal shares", "等权"), LOVE.names, LOVE.source, equal),
        FORMULA,
        best_question(greeting),
        matrix(both(f"Attention, β = {sharpness:g}", f"注意力，β = {sharpness:g}"), LOVE.names, LOVE.source, weights),
        matrix(
            both(f"The same for how are you, β = {sharpness:g}", f"how are you 的权重，β = {sharpness:g}"),
            GREETING.names,
            GREETING.source,
            greeting,
        ),
        curves(),
        no_counterpart(greeting),
        CLOSING,
    ]


def share_question(equal: Float[Tensor, "T S"]) -> LessonBlock:
    """How much of the vector comes from the aligned word?"""
    choices = [0.0, 1 / len(LOVE.source), 1.0]
    share = equal[0, 0]
    return question(
        both(
            "我 should be aligned with I. What share of the one vector comes from I?",
            "“我”应该与 I 对齐。在这一个向量里，I 占多少？",
        ),
        [same(number(choice)) for choice in choices],
        nearest_choice(choices, share),
        both(
            f"{number(share)}, as much as every other word, and the same for 我, 爱 and 你: the vector cannot "
            "express which word matters now.",
            f"{number(share)}，和其他每个词一样多，而且对“我”“爱”“你”都相同：这个向量分不出此刻哪个词更重要。",
        ),
    )


def best_question(weights: Float[Tensor, "T S"]) -> LessonBlock:
    """Which source word does the first word of the greeting attend to most?"""
    first = weights[0]
    # at β = 0 no word has more than another
    is_equal = bool((first == first[0]).all())
    best = len(GREETING.source) if is_equal else int(first.argmax())
    word, share = GREETING.names[0], number(first.max())
    return question(
        both(
            "how are you: 你好吗. With attention, which word has the largest weight for 你 (you), the first word?",
            "how are you：你好吗。用注意力时，第一个词“你”对哪个词的权重最大？",
        ),
        [*map(same, GREETING.source), both("all are equal", "都一样")],
        best,
        both(
            f"The weight is {share}. The order of the sentences differs, and attention does not need the order to "
            f"agree: {word.en} finds its word at the other end."
            if not is_equal
            else f"At β = 0 attention gives equal shares, {share} each. Raise β.",
            f"权重是 {share}。两句语序不同，而注意力并不要求语序一致：“{word.zh}”在句子另一端找到对应的词。"
            if not is_equal
            else f"β = 0 时注意力就是等权，各占 {share}。请调大 β。",
        ),
    )


def no_counterpart(weights: Float[Tensor, "T S"]) -> LessonBlock:
    """The question particle has no source word."""
    lone = GREETING.aligned.index(None)
    shares = list(map(number, weights[lone]))
    return text(
        "吗 marks a question; how are you has no word for it. Its query is 0, so its weights are "
        f"{', '.join(shares)} at any β. Not every word has a counterpart; softmax still distributes a total of 1.",
        f"“吗”表示疑问，how are you 里没有与它对应的词。它的查询是 0，所以无论 β 取何值，权重都是 {'、'.join(shares)}。"
        "并非每个词都有对应的词，但 softmax 的权重之和仍然是 1。",
    )


def curves() -> ChartBlock:
    """The weight of the aligned word by β."""
    steps = torch.linspace(ALL_EQUAL, SHARPEST, 25)
    by_step = torch.stack([LOVE.weights(step)[0] for step in steps.tolist()])
    labels = [both(f'"{word}"', f"“{word}”") for word in LOVE.source[:2]]
    return chart(
        both("Weights of 我 by β", "“我”的权重随 β 的变化"),
        same("β"),
        both("weight", "权重"),
        *(series(label, steps, by_step[:, index], points=False) for index, label in enumerate(labels)),
    )


LESSON = LessonEntry(
    title=both("Equal shares or attention: I love you, how are you", "等权还是注意力：I love you 与 how are you"),
    summary=both(
        "In one fixed vector every word counts the same; attention gives each target word its own weights.",
        "固定向量里每个词的贡献都一样；注意力让每个目标词有自己的权重。",
    ),
    controls=CONTROLS,
    build=build,
    code=(attend, Dot),
    experiment="alignment",
)
