"""A long key means importance: the dot product counts the length of a key, the cosine does not."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.scores import Cosine, Dot
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
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import ChartBlock, LessonBlock

ANGLES = (0.0, 40.0, 100.0)
"""Degrees between the query and each key."""
KEYS = (both("nearest direction", "方向最接近"), both("long", "长键"), both("other direction", "方向不同"))
LONG = 1
"""The key whose length the reader sets; the others have length 1."""
SHORTEST, LONGEST, SHARPNESS = 0.5, 5.0, 2.0
SCORES = (same("q·k"), same("cos(q, k)"))

CONTROLS = (
    control("length", both("Length of the long key", "长键的长度"), low=SHORTEST, high=LONGEST, step=0.25, value=3.0),
)

INTRODUCTION = text(
    f"Three keys at {ANGLES[0]:g}, {ANGLES[1]:g} and {ANGLES[2]:g} degrees from the query. The one at {ANGLES[LONG]:g} "
    "degrees has a length of its own.",
    f"三个键与查询的夹角是 {ANGLES[0]:g}、{ANGLES[1]:g} 和 {ANGLES[2]:g} 度，其中 {ANGLES[LONG]:g} 度的那个键长度"
    "可以调节。",
)
FORMULA = formula(r"q \cdot k = |q|\,|k| \cos\theta \qquad\qquad \cos\theta = \frac{q \cdot k}{|q|\,|k|}")
CLOSING = text(
    "With the dot product a model can make one word more important for every query that points its way: by a longer "
    "key. It also saves the norm of every key. The cosine suits comparison and classification, where only the "
    "direction should count; its scores lie between -1 and 1, so it needs a factor before the softmax, here "
    f"{SHARPNESS:g}.",
    "用点积时，模型只要把键变长，就能让一个词对所有方向相近的查询都更重要；而且省去了计算每个键的范数。"
    f"余弦适合只看方向的比较与分类；它的分数在 -1 与 1 之间，softmax 之前需要乘一个系数，这里是 {SHARPNESS:g}。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Scores and weights of both, then by length."""
    length = settings["length"]
    scores = all_scores(length)
    weights = all_weights(length)[:, 0]
    by_name = dict(zip(SCORES, weights, strict=True))
    return [
        INTRODUCTION,
        matrix(both("Keys", "键"), KEYS, ("x", "y"), keys_of(length)[0]),
        *(largest_question(name, row) for name, row in by_name.items()),
        FORMULA,
        matrix(both("Scores", "分数"), SCORES, KEYS, scores),
        matrix(
            both(f"Weights, {SHARPNESS:g} times the score", f"权重（分数乘以 {SHARPNESS:g}）"),
            SCORES,
            KEYS,
            weights,
        ),
        curves(),
        text(
            f"The dot product prefers the long key from length {number(crossing())} on, which is 1 / cos "
            f"{ANGLES[LONG]:g}°.",
            f"长度达到 {number(crossing())}（即 1 / cos {ANGLES[LONG]:g}°）以后，点积就偏向长键。",
        ),
        CLOSING,
    ]


def keys_of(*lengths: float) -> Float[Tensor, "N 3 2"]:
    """The keys for each length; the query is (1, 0)."""
    radians = torch.tensor([math.radians(angle) for angle in ANGLES])
    directions = torch.stack([radians.cos(), radians.sin()], dim=-1)
    factors = torch.ones(len(lengths), len(ANGLES), 1)
    factors[:, LONG, 0] = torch.tensor(lengths)
    return factors * directions


def all_scores(length: float) -> Float[Tensor, "2 3"]:
    """Dot product and cosine."""
    query, keys = torch.tensor([[1.0, 0.0]]), keys_of(length)[0]
    return torch.cat([Dot()(query, keys), Cosine()(query, Cosine().prepare(keys))])


def all_weights(*lengths: float) -> Float[Tensor, "2 N 3"]:
    """The weights of both scores for each length."""
    # a longer query is a factor for the dot product; the cosine has a scale for it
    query, keys = torch.tensor([[SHARPNESS, 0.0]]), keys_of(*lengths)
    scores = (Dot(), Cosine(scale=SHARPNESS))
    return torch.stack([attend_with_weights(query, keys, score=score)[0][:, 0] for score in scores])


def crossing() -> float:
    """The length at which the dot product gives both keys the same score."""
    return math.cos(math.radians(ANGLES[0])) / math.cos(math.radians(ANGLES[LONG]))


def largest_question(name: LocalizedText, weights: Float[Tensor, " 3"]) -> LessonBlock:
    """Which key gets the largest weight?"""
    best = int(weights.argmax())
    return question(
        both(f"Which key has the largest weight with {name.en}?", f"用 {name.zh} 时，哪个键的权重最大？"),
        list(KEYS),
        best,
        both(f"{KEYS[best].en.capitalize()}: {number(weights[best])}.", f"{KEYS[best].zh}：{number(weights[best])}。"),
    )


def curves() -> ChartBlock:
    """The weight of the long key by its length."""
    lengths = torch.linspace(SHORTEST, LONGEST, 37)
    by_length = all_weights(*lengths.tolist())[:, :, LONG]
    return chart(
        both("Weight of the long key", "长键的权重"),
        both("length", "长度"),
        both("weight", "权重"),
        *(series(name, lengths, by_length[index], points=False) for index, name in enumerate(SCORES)),
    )


LESSON = LessonEntry(
    title=both("A long key means importance: dot product and cosine", "键越长越重要：点积与余弦"),
    summary=both(
        "The dot product counts the length of a key, the cosine only its direction.",
        "点积计入键的长度，余弦只看方向。",
    ),
    controls=CONTROLS,
    build=build,
    code=(Dot, Cosine),
    experiment="dot_against_cosine",
)
