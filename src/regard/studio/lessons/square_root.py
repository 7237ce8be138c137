"""Why scores are divided by the square root of the size, measured."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.attention.scores import Dot, ScaledDot
from regard.experiments import entropy_of
from regard.studio.lessons.blocks import (
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
from regard.studio.schema.pages import Block, ChartBlock

QUERIES, KEYS, SHOWN, MOST_DOUBLINGS, SEED = 128, 64, 6, 9, 0
NAMES = ("q·k", "q·k / √d")

CONTROLS = (
    control(
        "doublings",
        both("Size d = 2^n, n", "维度 d = 2^n 中的 n"),
        low=2.0,
        high=float(MOST_DOUBLINGS),
        step=1.0,
        value=6.0,
    ),
)

INTRODUCTION = text(
    f"Draw {QUERIES} queries and {KEYS} keys, every entry with mean 0 and variance 1, and let attention read as it "
    "would before it has learned anything.",
    f"随机取 {QUERIES} 个查询和 {KEYS} 个键，每个分量均值为 0、方差为 1，看看尚未学习的注意力会怎样读。",
)
FORMULA = formula(r"q \cdot k = \sum_{i=1}^{d} q_i k_i, \qquad \mathrm{score}(q, k) = \frac{q \cdot k}{\sqrt{d}}")


def build(settings: Mapping[str, float]) -> list[Block]:
    """Variance and entropy at one size, then at all."""
    size = 2 ** int(settings["doublings"])
    scores = both_scores(size)
    weights = Softmax()(scores).weights
    variances, entropies = scores.var(dim=(1, 2)), typical_entropy(scores)
    evenly, highest = math.log(KEYS), weights[0, 0].topk(SHOWN).indices
    return [
        INTRODUCTION,
        FORMULA,
        spread_question(size, variances[0].item()),
        decided_question(entropies),
        matrix(
            both(f"The {SHOWN} largest weights of one query", f"一个查询最大的 {SHOWN} 个权重"),
            NAMES,
            [f"k{place + 1}" for place in highest.tolist()],
            weights[:, 0, highest],
        ),
        chart_of_entropies(),
        text(
            f"At $d = {size}$ the variance is {number(variances[0], 1)} before the division and {number(variances[1])} "
            f"after it; the entropy {number(entropies[0])} and {number(entropies[1])} nats, where an even look at all "
            f"{KEYS} keys has {number(evenly)}.",
            f"$d = {size}$ 时，除之前方差为 {number(variances[0], 1)}，之后为 {number(variances[1])}；熵分别为 "
            f"{number(entropies[0])} 与 {number(entropies[1])} 纳特，而均匀地看 {KEYS} 个键时是 {number(evenly)}。",
        ),
        text(
            "A softmax that has decided already has next to no gradient: it cannot learn to look elsewhere. Divided "
            "by $\\sqrt{d}$, scores have variance 1 at every size. The experiment `scaling` measures the gradient too.",
            "softmax 若已“认定”一个键，梯度就几乎为零，再也学不会看别处。除以 $\\sqrt{d}$ 之后，"
            "无论维度多大，评分的方差都是 1。实验 `scaling` 还测量了梯度。",
        ),
    ]


def both_scores(size: int) -> Float[Tensor, "2 Q K"]:
    """The dot product of the same vectors, plain and divided."""
    generator = make_generator(SEED)
    queries, keys = (torch.randn(rows, size, generator=generator) for rows in (QUERIES, KEYS))
    return torch.stack([score(queries, score.prepare(keys)) for score in (Dot(), ScaledDot())])


def typical_entropy(scores: Float[Tensor, "2 Q K"]) -> Float[Tensor, " 2"]:
    """The median query's, in nats."""
    return entropy_of(Softmax()(scores).weights).median(dim=-1).values


def spread_question(size: int, variance: float) -> Block:
    """How widely do plain scores spread?"""
    choices = {"1": 1.0, "√d": math.sqrt(size), "d": float(size), "d²": float(size**2)}
    nearest = min(choices, key=lambda name: abs(math.log(variance / choices[name])))
    return question(
        both(
            f"With $d = {size}$, what is the variance of $q \\cdot k$?", f"$d = {size}$ 时，$q \\cdot k$ 的方差是多少？"
        ),
        [same(f"{name} = {value:.4g}" if name != "1" else name) for name, value in choices.items()],
        list(choices).index(nearest),
        both(
            f"Measured: {number(variance, 1)}. Each of the $d$ products has variance 1, and variances add up.",
            f"实测 {number(variance, 1)}。$d$ 个乘积每个方差为 1，相互独立时方差相加。",
        ),
    )


def decided_question(entropies: Float[Tensor, " 2"]) -> Block:
    """Which of the two has made up its mind?"""
    return question(
        both(
            "Which of the two, $q \\cdot k$ or $q \\cdot k / \\sqrt{d}$, spreads its weights over fewer keys?",
            "$q \\cdot k$ 与 $q \\cdot k / \\sqrt{d}$，哪一个的权重集中在更少的键上？",
        ),
        [same(name) for name in NAMES],
        int(entropies.argmin()),
        both(
            f"Entropy {number(entropies[0])} against {number(entropies[1])} nats; 0 is a single key.",
            f"熵为 {number(entropies[0])} 对 {number(entropies[1])} 纳特；0 表示只看一个键。",
        ),
    )


def chart_of_entropies() -> ChartBlock:
    """How far the weights spread, size by size."""
    doublings = torch.arange(2, MOST_DOUBLINGS + 1)
    found = torch.stack([typical_entropy(both_scores(2**power)) for power in doublings.tolist()])
    return chart(
        both("Entropy of the weights", "权重的熵"),
        both("n, of d = 2^n", "n（d = 2^n）"),
        both("nats", "纳特"),
        *(series(same(name), doublings.float(), found[:, place], points=False) for place, name in enumerate(NAMES)),
    )
