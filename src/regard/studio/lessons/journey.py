"""The causal mask: a word attends to itself and the words before it."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.masks import causal
from regard.attention.scores import ScaledDot
from regard.studio.lessons.blocks import (
    LessonEntry,
    attend_with_weights,
    both,
    control,
    formula,
    make_generator,
    matrix,
    nearest_choice,
    number,
    question,
    same,
    text,
)
from regard.studio.schema.pages import LessonBlock

WORDS = ("Your", "journey", "starts")
SIZE = 8

CONTROLS = (
    control("seed", both("Seed of the word vectors", "词向量的随机种子"), low=0.0, high=99.0, step=1.0, value=0.0),
)

INTRODUCTION = text(
    "A language model predicts the next word from the words before it. In training the input contains the whole "
    "sentence; without a mask, the model could copy the next word. The causal mask excludes later words.",
    "语言模型根据前面的词预测下一个词。训练时输入包含整个句子；没有掩码，模型可以直接照抄下一个词。"
    "因果掩码排除后面的词。",
)
FORMULA = formula(
    r"w = \mathrm{softmax}\left(\frac{Q K^\top}{\sqrt{d}} + M\right), \qquad "
    r"M_{ij} = \begin{cases} 0 & j \le i \\ -\infty & j > i \end{cases}"
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Scores, mask, weights."""
    words = torch.randn(len(WORDS), SIZE, generator=make_generator(int(settings["seed"])))
    scores, allowed = ScaledDot()(words, words), torch.ones(len(WORDS), len(WORDS)).tril().bool()
    free, masked = causal_weights(words, masked=False), causal_weights(words, masked=True)
    ahead = number(free[0, 1:].sum())
    return [
        INTRODUCTION,
        matrix(both("Scores of all pairs", "所有词对的分数"), WORDS, WORDS, scores),
        FORMULA,
        matrix(both("After the mask", "加上掩码之后"), WORDS, WORDS, scores, allowed),
        first_word(masked),
        attended_words(masked),
        matrix(both("Weights under the mask", "掩码下的权重"), WORDS, WORDS, masked, allowed),
        matrix(both("Weights without it", "不加掩码的权重"), WORDS, WORDS, free),
        text(
            f"Without the mask, {ahead} of the first word's weight is on words that follow. With it, the weights of "
            "each row are distributed over the words so far and still sum to 1. With another seed the numbers change, "
            "the zeros do not.",
            f"没有掩码时，第一个词有 {ahead} 的权重落在后面的词上。加上掩码后，每行权重只分配给到目前为止的词，"
            "总和仍为 1。换一个种子，数字会变，这些 0 不会变。",
        ),
    ]


def causal_weights(words: Float[Tensor, "3 8"], *, masked: bool) -> Float[Tensor, "3 3"]:
    """Self-attention weights with or without the causal mask."""
    return attend_with_weights(words, words, mask=causal() if masked else None)[0]


def first_word(weights: Float[Tensor, "3 3"]) -> LessonBlock:
    """What weight does the first word give itself?"""
    choices = torch.tensor([0.0, 1 / len(WORDS), 1.0])
    return question(
        both('What weight does "Your" give itself?', "“Your”给自己多少权重？"),
        [same(number(choice)) for choice in choices],
        nearest_choice(choices, weights[0, 0]),
        both(
            f"It may attend to no other word, so its weight is {number(weights[0, 0])}.",
            f"它不能关注别的词，全部权重都给自己：{number(weights[0, 0])}。",
        ),
    )


def attended_words(weights: Float[Tensor, "3 3"]) -> LessonBlock:
    """Which words does the second one attend to?"""
    words = [word for word, weight in zip(WORDS, weights[1], strict=True) if weight > 0]
    choices = (WORDS[:1], WORDS[:2], WORDS)
    return question(
        both('Which words does "journey" attend to?', "“journey”关注哪些词？"),
        [same(", ".join(choice)) for choice in choices],
        [list(choice) for choice in choices].index(words),
        both(
            f'{number(weights[1, 0])} to "Your", {number(weights[1, 1])} to itself, and to "starts" exactly '
            f"{number(weights[1, 2], 0)}.",
            f"“Your”占 {number(weights[1, 0])}，自己占 {number(weights[1, 1])}，“starts”恰好是 "
            f"{number(weights[1, 2], 0)}。",
        ),
    )


LESSON = LessonEntry(
    title=both("The causal mask", "因果掩码"),
    summary=both(
        "Each word attends to itself and the words before, never to those after.",
        "每个词只关注自己和前面的词，不关注后面的词。",
    ),
    controls=CONTROLS,
    build=build,
    code=(attend, causal),
    experiment="causal_mask",
)
