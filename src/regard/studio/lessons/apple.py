"""我吃了一个苹果: each word reads those before it, with the weights of the seed."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.studio.lessons.blocks import both, control, formula, matrix, number, question, same, text
from regard.studio.schema.pages import Block

WORDS = ("我", "吃了", "一个", "苹果")
SHARES = torch.tensor([[1.0, 0.0, 0.0, 0.0], [1.0, 1.0, 0.0, 0.0], [9.0, 9.0, 2.0, 0.0], [3.0, 3.0, 1.0, 3.0]])
"""Parts that each word gives to the ones up to it; they make the seed's weights."""

CONTROLS = (control("sharpness", both("Sharpness β", "锐度 β"), low=0.5, high=4.0, step=0.5, value=1.0),)


INTRODUCTION = text(
    '我吃了一个苹果, "I ate an apple", is read word by word. At each word the model makes a context out of all '
    "words so far: how much of each, the weights say.",
    "逐词读入“我吃了一个苹果”。每读到一个词，模型就用目前为止的所有词合成一个上下文，各取多少由权重决定。",
)
FORMULA = formula(
    r"w_{ij} = \frac{\exp(s_{ij})}{\sum_{k \le i} \exp(s_{ik})}, \qquad C_i = \sum_{j \le i} w_{ij}\, x_j"
)
CLOSING = text(
    "At $\\beta = 1$ these are the weights of the example in 探秘Transformer系列之（1）; the scores are their "
    "logarithms. A larger $\\beta$ stretches the scores, and the rows become more decided. Words of equal score "
    "keep equal weights at any $\\beta$.",
    "$\\beta = 1$ 时，这些就是《探秘Transformer系列之（1）》所举例子的权重，评分是它们的对数。"
    "$\\beta$ 越大，评分差距越大，每行就越“果断”。评分相同的词，无论 $\\beta$ 取何值，权重都相同。",
)


def build(settings: Mapping[str, float]) -> list[Block]:
    """Scores, weights, and what the last word takes from the others."""
    scores, allowed = scores_of(settings["sharpness"]), SHARES > 0
    weights = Softmax()(scores, allowed).weights
    mixture = " + ".join(f"{number(weight)} {word}" for weight, word in zip(weights[-1], WORDS, strict=True))
    first, last = number(weights[0, 0]), number(weights[-1, 0])
    return [
        INTRODUCTION,
        matrix(both("Scores, one row a word", "评分，每行对应一个词"), WORDS, WORDS, scores, allowed),
        FORMULA,
        least_read(weights),
        matrix(both("Weights", "注意力权重"), WORDS, WORDS, weights, allowed),
        text(
            f"$C_4$ = {mixture}. Each row sums to 1: whatever a new word takes, the earlier ones lose. 我 goes from "
            f"{first} in the first row to {last} in the last.",
            f"$C_4$ = {mixture}。每行之和为 1：新词拿走多少，前面的词就失去多少。“我”从第一行的 {first} 降到"
            f"最后一行的 {last}。",
        ),
        CLOSING,
    ]


def least_read(weights: Float[Tensor, "4 4"]) -> Block:
    """Which word counts least for the last one?"""
    least = int(weights[-1].argmin())
    share = number(weights[-1, least])
    return question(
        both("Of which word does the context of 苹果 hold least?", "“苹果”的上下文里，哪个词占得最少？"),
        [same(word) for word in WORDS],
        least,
        both(
            f"{WORDS[least]} has the lowest score of the last row, and so the least weight: {share}.",
            f"最后一行里“{WORDS[least]}”评分最低，权重也就最小：{share}。",
        ),
    )


def scores_of(sharpness: float) -> Float[Tensor, "4 4"]:
    """Logarithms of the shares, stretched."""
    return SHARES.clamp(min=1).log() * sharpness
