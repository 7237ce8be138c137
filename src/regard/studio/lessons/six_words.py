"""Your journey starts with one step: self-attention without parameters, number by number.

The word vectors are those of Raschka 2024, Build a Large Language Model (From Scratch), section 3.3.
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.masks import causal
from regard.attention.scores import Dot
from regard.studio.lessons.blocks import (
    LessonEntry,
    attend_with_weights,
    both,
    control,
    formula,
    matrix,
    nearest_choice,
    number,
    numbers,
    question,
    same,
    text,
)
from regard.studio.schema.pages import LessonBlock

WORDS = ("Your", "journey", "starts", "with", "one", "step")
VECTORS = torch.tensor(
    [
        [0.43, 0.15, 0.89],
        [0.55, 0.87, 0.66],
        [0.57, 0.85, 0.64],
        [0.22, 0.58, 0.33],
        [0.77, 0.25, 0.10],
        [0.05, 0.80, 0.55],
    ]
)
DIMENSIONS = ("1", "2", "3")

CONTROLS = (
    control("word", both("Query: word number", "查询：第几个词"), low=1.0, high=float(len(WORDS)), step=1.0, value=2.0),
    control("causal", both("Causal mask: 0 no, 1 yes", "因果掩码：0 否，1 是"), low=0.0, high=1.0, step=1.0, value=0.0),
)

INTRODUCTION = text(
    "Six words, three numbers each: Your journey starts with one step. Self-attention relates every word of a sequence "
    "to all words of the same sequence. This is its simplest form, without any parameter: query, key and value are the "
    "word vector itself.",
    "六个词，每个词三个数：Your journey starts with one step。自注意力让序列中的每个词与同一序列的所有词建立联系。"
    "这是最简单的形式，没有任何参数：查询、键和值都是词向量本身。",
)
FORMULA = formula(
    r"s_{ij} = x_i \cdot x_j, \qquad w_{ij} = \mathrm{softmax}_j(s_{ij}), \qquad z_i = \sum_j w_{ij}\, x_j"
)
CLOSING = text(
    "All words at once are one matrix product each: $S = X X^\\top$, $Z = W X$. That is why graphics cards suit "
    "attention. With parameters, three matrices make queries, keys and values of the same vectors (see the lesson on "
    "projection matrices).",
    "所有词一起算时，每一步都是一次矩阵乘法：$S = X X^\\top$，$Z = W X$，所以显卡适合计算注意力。"
    "加上参数之后，由三个矩阵从同样的向量得到查询、键和值（见“投影矩阵”一课）。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Vectors, dot products, weights and contexts."""
    index, mask = int(settings["word"]) - 1, causal() if settings["causal"] else None
    word = WORDS[index]
    scores = Dot()(VECTORS, VECTORS)
    allowed = torch.ones_like(scores, dtype=torch.bool)
    allowed = allowed if mask is None else allowed.tril()
    weights, contexts = attend_with_weights(VECTORS, VECTORS, score=Dot(), mask=mask)
    own = " + ".join(f"{number(one)}·{number(other)}" for one, other in zip(VECTORS[index], VECTORS[0], strict=True))
    return [
        INTRODUCTION,
        matrix(both("1. Word vectors x", "1. 词向量 x"), WORDS, DIMENSIONS, VECTORS),
        FORMULA,
        text(
            f"2. The score of {word} and {WORDS[0]} is {own} = {number(scores[index, 0], 4)}.",
            f"2. {word} 与 {WORDS[0]} 的分数：{own} = {number(scores[index, 0], 4)}。",
        ),
        largest_score(index, scores[index], allowed[index]),
        matrix(
            both(f"2. Scores of {word}", f"2. {word} 的分数"), [word], WORDS, scores[index, None], allowed[index, None]
        ),
        matrix(
            both(f"3. Weights of {word}", f"3. {word} 的权重"),
            [word],
            WORDS,
            weights[index, None],
            allowed[index, None],
        ),
        spread_question(index, weights[index]),
        text(
            f"4. The context of {word} is the weighted sum of all vectors: $z$ = {numbers(contexts[index], 4)}.",
            f"4. {word} 的上下文是所有向量的加权和：$z$ = {numbers(contexts[index], 4)}。",
        ),
        matrix(both("All weights", "全部权重"), WORDS, WORDS, weights, allowed),
        matrix(both("All contexts z", "全部上下文 z"), WORDS, DIMENSIONS, contexts),
        CLOSING,
    ]


def largest_score(index: int, scores: Float[Tensor, " 6"], allowed: Tensor) -> LessonBlock:
    """Which word has the largest dot product with the query?"""
    best = int(scores.masked_fill(~allowed, -torch.inf).argmax())
    own = best == index
    return question(
        both(
            f"Which word has the largest score for {WORDS[index]}, among those it may attend to?",
            f"在可以关注的词里，{WORDS[index]} 与哪个词的分数最大？",
        ),
        list(map(same, WORDS)),
        best,
        both(
            f"{WORDS[best]}: {number(scores[best], 4)}"
            + (". A word is often most similar to itself." if own else ": a long vector can beat the word itself."),
            f"{WORDS[best]}：{number(scores[best], 4)}"
            + ("。一个词往往与自己最相似。" if own else "，较长的向量可以超过这个词自己。"),
        ),
    )


def spread_question(index: int, weights: Float[Tensor, " 6"]) -> LessonBlock:
    """How large is the largest weight?"""
    largest = float(weights.max())
    choices = [1 / len(WORDS), 0.5, 1.0]
    visible = int((weights > 0).sum())
    english = f"{number(largest, 4)}; equal shares would be {number(1 / visible, 4)}"
    chinese = f"{number(largest, 4)}；平均分配则是 {number(1 / visible, 4)}"
    # under the causal mask the first word has only itself
    if visible > 1:
        english += ": the scores of these vectors differ little"
        chinese += "：这些向量的分数相差不大"
    return question(
        both(
            f"How large, roughly, is the largest weight of {WORDS[index]}?",
            f"{WORDS[index]} 最大的权重大约是多少？",
        ),
        [same(number(choice)) for choice in choices],
        nearest_choice(choices, largest),
        both(f"{english}.", f"{chinese}。"),
    )


LESSON = LessonEntry(
    title=both(
        "Self-attention by hand: Your journey starts with one step", "手算自注意力：Your journey starts with one step"
    ),
    summary=both(
        "Six words, dot products, softmax, contexts: every number can be checked.",
        "六个词、点积、softmax、上下文：每个数都可以核对。",
    ),
    controls=CONTROLS,
    build=build,
    code=(attend, Dot, causal),
)
