"""Dropout on attention weights: some become 0, the others grow by 1/(1-p), so that the expected sum stays 1."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import Attention, attend
from regard.studio.lessons.blocks import (
    LessonEntry,
    attend_with_weights,
    both,
    chart,
    control,
    formula,
    make_generator,
    matrix,
    number,
    question,
    same,
    series,
    text,
)
from regard.studio.lessons.six_words import VECTORS, WORDS
from regard.studio.schema.pages import ChartBlock, LessonBlock

QUERY, DRAWS = WORDS.index("journey"), 200

CONTROLS = (
    control("rate", both("Dropout rate p", "丢弃率 p"), low=0.1, high=0.9, step=0.1, value=0.5),
    control("seed", both("Seed", "随机种子"), low=0.0, high=99.0, step=1.0, value=0.0),
)

INTRODUCTION = text(
    "In training, dropout sets attention weights to 0 at random, each with probability p, so that the model does "
    "not depend on single words. The weights that are left are multiplied by a factor that keeps their sum at 1 on "
    "average. The weights here are those of journey in: Your journey starts with one step.",
    "训练时，dropout 把每个注意力权重以概率 p 随机置零，使模型不依赖个别的词。留下的权重要乘以一个系数，"
    "使权重之和平均仍为 1。"
    "这里用的是 Your journey starts with one step 一句中 journey 的权重。",
)
FORMULA = formula(
    r"\tilde{w}_j = \frac{m_j}{1 - p}\, w_j, \qquad P(m_j = 1) = 1 - p, \qquad \mathbb{E}[\tilde{w}_j] = w_j"
)
CLOSING = text(
    "In one step the weights need not sum to 1; on average over steps they do. In evaluation nothing is dropped and "
    "nothing rescaled, so both modes agree on average.",
    "单独一步里，权重之和不一定是 1；多步平均才是 1。评估时既不丢弃，也不缩放，因此两种模式在平均意义上一致。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """One draw, and the mean of many."""
    rate = settings["rate"]
    weights = attend_with_weights(VECTORS[QUERY, None], VECTORS)[0][0]
    # (draws, K): True where a weight stays
    mask = torch.rand(DRAWS, len(WORDS), generator=make_generator(int(settings["seed"]))) >= rate
    dropped = mask * weights
    rescaled = dropped / (1 - rate)
    return [
        INTRODUCTION,
        factor_question(rate),
        FORMULA,
        matrix(
            both(f"One draw, p = {rate:g}", f"一次抽取，p = {rate:g}"),
            (both("weights", "权重"), both("dropped", "丢弃后"), both("rescaled", "缩放后")),
            WORDS,
            torch.stack([weights, dropped[0], rescaled[0]]),
        ),
        sum_question(rate, dropped, rescaled),
        sums(dropped, rescaled),
        text(
            f"The sum of this draw is {number(rescaled[0].sum())}; the mean of {DRAWS} draws is "
            f"{number(rescaled.sum(dim=1).mean())}, without the factor {number(dropped.sum(dim=1).mean())}.",
            f"这一次的和是 {number(rescaled[0].sum())}；{DRAWS} 次的平均是 {number(rescaled.sum(dim=1).mean())}，"
            f"不乘系数时是 {number(dropped.sum(dim=1).mean())}。",
        ),
        CLOSING,
    ]


def factor_question(rate: float) -> LessonBlock:
    """By which factor do the remaining weights grow?"""
    factor = 1 / (1 - rate)
    # wrong choices: no factor, and one that grows with p in another way
    choices = [number(choice) for choice in (1.0, 1 + rate, factor)]
    return question(
        both(
            f"With p = {rate:g}, by which factor must the weights that are left be multiplied?",
            f"p = {rate:g} 时，留下的权重要乘以多少？",
        ),
        list(map(same, choices)),
        choices.index(number(factor)),
        both(
            f"1/(1-p) = {number(factor)}: a share of 1-p is left.",
            f"1/(1-p) = {number(factor)}：留下的比例是 1-p。",
        ),
    )


def sum_question(rate: float, dropped: Float[Tensor, "N K"], rescaled: Float[Tensor, "N K"]) -> LessonBlock:
    """What is the mean sum with and without the factor?"""
    with_factor, without = rescaled.sum(dim=1).mean(), dropped.sum(dim=1).mean()
    return question(
        both(
            f"Without the factor: how does the mean of the sum over {DRAWS} draws change?",
            f"如果不乘这个系数，{DRAWS} 次抽取的权重之和平均会怎样？",
        ),
        [both("it is smaller", "变小"), both("it stays 1", "仍为 1"), both("it is larger", "变大")],
        # with a tolerance: the mean of random draws
        1 if abs(float(without) - 1) < 0.02 else 0 if without < 1 else 2,
        both(
            f"{number(without)} without, {number(with_factor)} with it: about 1-p = {1 - rate:g} against 1.",
            f"不乘时是 {number(without)}，乘了是 {number(with_factor)}：分别约为 1-p = {1 - rate:g} 和 1。",
        ),
    )


def sums(dropped: Float[Tensor, "N K"], rescaled: Float[Tensor, "N K"]) -> ChartBlock:
    """The running mean of the sum of the weights."""
    draws = torch.arange(1, DRAWS + 1)
    return chart(
        both("Mean of the sum of the weights, by number of draws", "权重之和的平均值随抽取次数的变化"),
        both("draws", "抽取次数"),
        both("mean sum", "和的平均值"),
        *(
            series(label, draws, weights.sum(dim=1).cumsum(dim=0) / draws, points=False)
            for label, weights in (
                (both("with 1/(1-p)", "乘以 1/(1-p)"), rescaled),
                (both("without", "不乘"), dropped),
            )
        ),
    )


LESSON = LessonEntry(
    title=both("Dropout on weights, and 1/(1-p)", "权重上的 dropout 与 1/(1-p)"),
    summary=both(
        "Some weights become 0 in training; the factor keeps the sum at 1 on average.",
        "训练时一部分权重变成 0；系数使总和平均仍为 1。",
    ),
    controls=CONTROLS,
    build=build,
    code=(Attention, attend),
)
