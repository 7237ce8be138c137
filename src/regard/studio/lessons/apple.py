"""我吃了一个苹果 (I ate an apple): each word attends to itself and those before it."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.studio.lessons.blocks import LessonEntry, both, control, formula, glossed, matrix, number, question, text
from regard.studio.schema.pages import LessonBlock

WORDS = ("我", "吃了", "一个", "苹果")
NAMES = tuple(glossed(word, gloss) for word, gloss in zip(WORDS, ("I", "ate", "a", "apple"), strict=True))
"""The words, in English with their meaning."""
SHARES = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [9.0, 9.0, 2.0, 0.0], [3.0, 3.0, 1.0, 3.0]])
"""Relative weights of each word for the words up to it, from the example that the lesson cites."""

CONTROLS = (control("sharpness", both("Sharpness β", "锐度 β"), low=0.5, high=4.0, step=0.5, value=1.0),)


INTRODUCTION = text(
    "A model processes 我吃了一个苹果 (I ate an apple) word by word. The context of each word is a weighted sum of "
    "all words so far.",
    "模型逐词处理“我吃了一个苹果”。每个词的上下文，是到目前为止所有词的加权和。",
)
FORMULA = formula(
    r"w_{ij} = \frac{\exp(s_{ij})}{\sum_{k \le i} \exp(s_{ik})}, \qquad C_i = \sum_{j \le i} w_{ij}\, x_j"
)
CLOSING = text(
    "At $\\beta = 1$ these are the weights of the example in 探秘Transformer系列之（1）; the scores are their "
    "logarithms. A larger $\\beta$ multiplies the scores, and the weights become more concentrated. Words of equal "
    "score have equal weights at any $\\beta$.",
    "$\\beta = 1$ 时，这些就是《探秘Transformer系列之（1）》所举例子的权重，分数是它们的对数。"
    "$\\beta$ 越大，分数差距越大，权重越集中。分数相同的词，无论 $\\beta$ 取何值，权重都相同。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Scores, weights, and the context of the last word."""
    scores, allowed = scores_of(settings["sharpness"]), SHARES > 0
    # the alignment itself, since these scores come from no queries and keys
    weights = Softmax()(scores, allowed).weights
    mixture = " + ".join(f"{number(weight)} {word}" for weight, word in zip(weights[-1], WORDS, strict=True))
    first, last = number(weights[0, 0]), number(weights[-1, 0])
    return [
        INTRODUCTION,
        matrix(both("Scores, one row per word", "分数，每行对应一个词"), NAMES, NAMES, scores, allowed),
        FORMULA,
        least_read(weights),
        matrix(both("Weights", "注意力权重"), NAMES, NAMES, weights, allowed),
        text(
            f"$C_4$ = {mixture}. Each row sums to 1, so weight on a new word reduces the weights of the others. The "
            f"weight of 我 is {first} in the first row and {last} in the last.",
            f"$C_4$ = {mixture}。每行之和为 1，新词得到权重，其他词的权重就减少。“我”的权重在第一行是 {first}，"
            f"在最后一行是 {last}。",
        ),
        CLOSING,
    ]


def least_read(weights: Float[Tensor, "4 4"]) -> LessonBlock:
    """Which word has the least weight in the context of the last one?"""
    least = int(weights[-1].argmin())
    share = number(weights[-1, least])
    return question(
        both("Which word has the least weight in the context of 苹果?", "“苹果”的上下文里，哪个词的权重最小？"),
        list(NAMES),
        least,
        both(
            f"{WORDS[least]} has the lowest score of the last row, and therefore the least weight: {share}.",
            f"最后一行里“{WORDS[least]}”分数最低，因此权重最小：{share}。",
        ),
    )


def scores_of(sharpness: float) -> Float[Tensor, "4 4"]:
    """Logarithms of the shares times the sharpness."""
    # shares of 0 are masked; clamped, because their logarithm is -inf
    return SHARES.clamp(min=1).log() * sharpness


LESSON = LessonEntry(
    title=both("Scores and weights: 我吃了一个苹果 (I ate an apple)", "分数与权重：我吃了一个苹果"),
    summary=both(
        "At each word a context is the weighted sum of the words so far.",
        "每个词的上下文是到目前为止各词的加权和。",
    ),
    controls=CONTROLS,
    build=build,
    code=(Softmax,),
)
