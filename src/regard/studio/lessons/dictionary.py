"""Queries, keys and values as a dictionary: an exact lookup is attention at temperature 0."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.alignments import ALIGNMENTS, Hard, Softmax
from regard.attention.scores import Gaussian
from regard.studio.lessons.blocks import (
    LessonEntry,
    attend_with_weights,
    both,
    chart,
    control,
    formula,
    matrix,
    number,
    question,
    same,
    series,
    text,
)
from regard.studio.schema.pages import ChartBlock, LessonBlock

FRUITS = (both("lime", "青柠"), both("apple", "苹果"), both("melon", "甜瓜"))
KEYS = torch.tensor([[0.5], [2.0], [4.5]])
"""Weight in units of 100 g; the keys of the dictionary."""
VALUES = torch.tensor([[0.4], [0.6], [3.0]])
"""Price."""
LIGHTEST, HEAVIEST, MAX_TEMPERATURE = 0.0, 5.0, 4.0

CONTROLS = (
    control(
        "query", both("Query: weight in 100 g", "查询：重量（百克）"), low=LIGHTEST, high=HEAVIEST, step=0.5, value=2.5
    ),
    control("temperature", both("Temperature T", "温度 T"), low=0.0, high=MAX_TEMPERATURE, step=0.25, value=0.5),
)

INTRODUCTION = text(
    "A dictionary maps keys to values. A lookup with a query returns the value of the key that is equal to it, and "
    "fails if there is none. Here the keys are the weights of three fruits, the values their prices.",
    "字典把键映射到值。用一个查询去查，得到与它相等的键所对应的值；没有这样的键，就查不到。"
    "这里的键是三种水果的重量，值是价格。",
)
FORMULA = formula(
    r"s_i = -\tfrac{1}{2}(q - k_i)^2, \qquad w = \mathrm{softmax}(s / T), \qquad \mathrm{value} = \sum_i w_i v_i"
)
CLOSING = text(
    "So attention is a lookup with three changes: keys and queries are vectors, a match is a matter of degree, and the "
    "values are merged. The changes make it differentiable: the gradient gives the direction in "
    "which a query or a key should move, whereas an exact match has none.",
    "所以注意力相当于查字典，只是有三处不同：键和查询是向量，匹配有程度之分，值要合并。"
    "这三处不同使它可导：梯度指出查询和键该往哪里调整，而精确匹配没有梯度。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """The exact lookup, the soft one, and both limits of the temperature."""
    query, temperature = settings["query"], settings["temperature"]
    # a dictionary leaves out a temperature that occurs twice
    limits = {limit: look_up([query], limit) for limit in (0.0, temperature, math.inf)}
    exact, here, mean = (number(limits[limit][1]) for limit in (0.0, temperature, math.inf))
    return [
        INTRODUCTION,
        matrix(
            both("The dictionary", "字典"),
            FRUITS,
            (both("key: 100 g", "键：百克"), both("value: price", "值：价格")),
            torch.cat([KEYS, VALUES], dim=1),
        ),
        exact_question(query),
        FORMULA,
        zero_question(query),
        matrix(
            both(f"Weights for the query {query:g}", f"查询 {query:g} 的权重"),
            [f"T = {limit:g}" if limit < math.inf else "T = ∞" for limit in limits],
            FRUITS,
            torch.cat([weights for weights, _ in limits.values()]),
        ),
        text(
            f"At T = {temperature:g} the result is {here}. At T = 0 it is {exact}, the value of the nearest key; as T "
            f"grows it approaches {mean}, the mean of all.",
            f"T = {temperature:g} 时结果是 {here}。T = 0 时是 {exact}，即最近的键的值；T 越大越接近 {mean}，即所有值的"
            "平均。",
        ),
        prices(),
        CLOSING,
    ]


def look_up(queries: list[float], temperature: float) -> tuple[Float[Tensor, "Q K"], Float[Tensor, " Q"]]:
    """Weights and results; temperature 0 is the hard alignment, an infinite one gives equal weights."""
    # dividing the score by T is a width of 1 / sqrt(T); the nearest key is the same at any width
    width = 1.0 if temperature == 0 else temperature**-0.5
    align = ALIGNMENTS["hard"].build() if temperature == 0 else Softmax()
    score = Gaussian(width=width).requires_grad_(False)
    weights, prices = attend_with_weights(torch.tensor(queries)[:, None], KEYS, VALUES, score=score, align=align)
    return weights, prices[:, 0]


def exact_question(query: float) -> LessonBlock:
    """What does the exact lookup return?"""
    # the exact lookup itself
    price = dict(zip(KEYS[:, 0].tolist(), VALUES[:, 0].tolist(), strict=True)).get(query)
    choices = VALUES[:, 0].tolist()
    return question(
        both(f"An exact lookup of {query:g}: what does it return?", f"精确查找 {query:g}，会得到什么？"),
        [*(same(number(choice)) for choice in choices), both("nothing: an error", "查不到：出错")],
        len(choices) if price is None else choices.index(price),
        both(
            f"No key is equal to {query:g}." if price is None else f"One key is equal to {query:g}.",
            f"没有等于 {query:g} 的键。" if price is None else f"有一个键恰好等于 {query:g}。",
        ),
    )


def zero_question(query: float) -> LessonBlock:
    """Which key gets all the weight at temperature 0?"""
    weights, _ = look_up([query], 0.0)
    best = int(weights[0].argmax())
    return question(
        both(
            f"As T goes to 0, one key gets all the weight. Which one, for the query {query:g}?",
            f"T 趋于 0 时，全部权重落在一个键上。查询为 {query:g} 时是哪一个？",
        ),
        list(FRUITS),
        best,
        both(
            f"The nearest key, {number(KEYS[best, 0], 1)}: softmax becomes the hard alignment. If a key is equal to "
            "the query, the result is that of the exact lookup.",
            f"最近的键 {number(KEYS[best, 0], 1)}：softmax 变成硬对齐。如果有键恰好等于查询，结果就与精确查找相同。",
        ),
    )


def prices() -> ChartBlock:
    """The result by the query, at three temperatures, and the entries."""
    queries = torch.linspace(LIGHTEST, HEAVIEST, 51)
    return chart(
        both("Result by the query", "结果随查询的变化"),
        both("query", "查询"),
        both("price", "价格"),
        series(both("entries", "词条"), KEYS[:, 0], VALUES[:, 0], points=True),
        *(
            series(
                same(f"T = {temperature:g}"),
                queries,
                look_up(queries.tolist(), temperature)[1],
                points=False,
            )
            for temperature in (0.0, 0.25, MAX_TEMPERATURE)
        ),
    )


LESSON = LessonEntry(
    title=both("Query, key, value: a soft dictionary", "查询、键、值：一本软字典"),
    summary=both(
        "A lookup that always finds something; at temperature 0 it is the exact one.",
        "总能查到结果的字典；温度为 0 时就是精确查找。",
    ),
    controls=CONTROLS,
    build=build,
    code=(attend, Gaussian, Hard),
)
