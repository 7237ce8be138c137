"""Why scores are divided by the square root of d: variance and entropy, measured."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.attention.scores import Dot, ScaledDot
from regard.experiments import entropy_of
from regard.studio.lessons.blocks import (
    LessonEntry,
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
from regard.studio.schema.pages import ChartBlock, LessonBlock

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
    f"Sample {QUERIES} queries and {KEYS} keys whose entries have mean 0 and variance 1, as in attention before "
    "training.",
    f"随机取 {QUERIES} 个查询和 {KEYS} 个键，每个分量均值为 0、方差为 1，相当于训练之前的注意力。",
)
FORMULA = formula(r"q \cdot k = \sum_{i=1}^{d} q_i k_i, \qquad \mathrm{score}(q, k) = \frac{q \cdot k}{\sqrt{d}}")


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Variance and entropy at one size, then by size."""
    size = 2 ** int(settings["doublings"])
    scores = both_scores(size)
    weights = Softmax()(scores).weights
    # (2, Q, K): over all pairs of query and key
    variances, entropies = scores.var(dim=(1, 2)), typical_entropy(scores)
    uniform, highest = math.log(KEYS), weights[0, 0].topk(SHOWN).indices
    return [
        INTRODUCTION,
        FORMULA,
        variance_question(size, variances[0].item()),
        entropy_question(entropies),
        matrix(
            both(f"The {SHOWN} largest weights of one query", f"一个查询最大的 {SHOWN} 个权重"),
            NAMES,
            [f"k{index + 1}" for index in highest.tolist()],
            weights[:, 0, highest],
        ),
        chart_of_entropies(),
        text(
            f"At $d = {size}$ the variance is {number(variances[0], 1)} before the division and {number(variances[1])} "
            f"after it; the entropy {number(entropies[0])} and {number(entropies[1])} nats; uniform weights over "
            f"{KEYS} keys have {number(uniform)}.",
            f"$d = {size}$ 时，除之前方差为 {number(variances[0], 1)}，之后为 {number(variances[1])}；熵分别为 "
            f"{number(entropies[0])} 与 {number(entropies[1])} 纳特，{KEYS} 个键的均匀权重的熵是 {number(uniform)}。",
        ),
        text(
            "A saturated softmax has almost no gradient, so its weights hardly change in training. Divided by "
            "$\\sqrt{d}$, scores have variance 1 at every size. The experiment `scaling` measures the gradient too.",
            "饱和的 softmax 几乎没有梯度，训练很难改变它的权重。除以 $\\sqrt{d}$ 之后，"
            "无论维度多大，分数的方差都是 1。实验 `scaling` 还测量了梯度。",
        ),
    ]


def both_scores(size: int) -> Float[Tensor, "2 Q K"]:
    """The dot product of the same vectors, plain and divided."""
    generator = make_generator(SEED)
    queries, keys = (torch.randn(rows, size, generator=generator) for rows in (QUERIES, KEYS))
    return torch.stack([score(queries, score.prepare(keys)) for score in (Dot(), ScaledDot())])


def typical_entropy(scores: Float[Tensor, "2 Q K"]) -> Float[Tensor, " 2"]:
    """The median over queries, in nats."""
    return entropy_of(Softmax()(scores).weights).median(dim=-1).values


def variance_question(size: int, variance: float) -> LessonBlock:
    """What is the variance of plain scores?"""
    choices = {"1": 1.0, "√d": math.sqrt(size), "d": float(size), "d²": float(size**2)}
    # on a logarithmic scale, since the choices differ by factors
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


def entropy_question(entropies: Float[Tensor, " 2"]) -> LessonBlock:
    """Which of the two has the lower entropy?"""
    return question(
        both(
            "Which of the two, $q \\cdot k$ or $q \\cdot k / \\sqrt{d}$, spreads its weights over fewer keys?",
            "$q \\cdot k$ 与 $q \\cdot k / \\sqrt{d}$，哪一个的权重集中在更少的键上？",
        ),
        [same(name) for name in NAMES],
        int(entropies.argmin()),
        both(
            f"Entropy {number(entropies[0])} against {number(entropies[1])} nats; 0 is a single key.",
            f"熵为 {number(entropies[0])} 对 {number(entropies[1])} 纳特；0 表示全部权重在一个键上。",
        ),
    )


def chart_of_entropies() -> ChartBlock:
    """The entropy of the weights by size."""
    doublings = torch.arange(2, MOST_DOUBLINGS + 1)
    entropies = torch.stack([typical_entropy(both_scores(2**power)) for power in doublings.tolist()])
    return chart(
        both("Entropy of the weights", "权重的熵"),
        both("n, of d = 2^n", "n（d = 2^n）"),
        both("nats", "纳特"),
        *(series(same(name), doublings.float(), entropies[:, index], points=False) for index, name in enumerate(NAMES)),
    )


LESSON = LessonEntry(
    title=both("Why scores are divided by √d", "为什么分数要除以 √d"),
    summary=both(
        "The variance of a dot product and the entropy of its softmax, measured.",
        "实测点积的方差与 softmax 权重的熵。",
    ),
    controls=CONTROLS,
    build=build,
    code=(ScaledDot, Dot),
    experiment="scaling",
)
