"""What stands out and what one looks for: keys, a query and values on a desk."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.scores import Dot
from regard.studio.lessons.blocks import both, chart, control, formula, matrix, number, question, same, series, text
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import Block

OBJECTS = ("newspaper 报纸", "paper 论文", "coffee 咖啡", "notebook 笔记本", "book 书")
COFFEE, BOOK = 2, 4
KEYS = torch.tensor([[0.2, 0.8], [0.1, 0.7], [2.2, 0.0], [0.1, 0.3], [0.3, 1.2]])
"""How much each stands out, and how good it is to read."""
VALUES = torch.tensor([[0.0, 24.0], [0.0, 10.0], [1.0, 0.0], [0.0, 0.0], [0.0, 300.0]])
"""Cups and pages: what one takes in."""

CONTROLS = (
    control("wish", both("How much you want to read, w", "想阅读的程度 w"), low=0.0, high=4.0, step=0.5, value=2.0),
)


OPENING: tuple[Block, ...] = (
    text(
        "On a desk lie four grey things made of paper and one red cup of coffee. The cup catches the eye by itself: "
        "an involuntary cue. If you want to read, you look for something else: a voluntary cue.",
        "桌上有四样灰色的纸制品，还有一杯红杯子装的咖啡。杯子自己就会吸引目光：这是非自主提示。"
        "如果你想读点什么，就会主动去找别的东西：这是自主提示。",
    ),
    matrix(both("The keys: what can be noticed", "键：能被注意到的特征"), OBJECTS, ("red 红", "text 文字"), KEYS),
    text(
        "A key is the involuntary cue, what a thing shows of itself. The query is the voluntary cue, here "
        "$q = (1, w)$: red always counts, text counts $w$. The value is what you get when you look.",
        "键（key）是非自主提示，即物体自身显露的特征。查询（query）是自主提示，这里是 $q = (1, w)$："
        "红色总会起作用，文字起多大作用由 $w$ 决定。值（value）是看过去之后得到的东西。",
    ),
    formula(r"\alpha_i = \mathrm{softmax}_i(q \cdot k_i), \qquad c = \sum_i \alpha_i v_i"),
)


def build(settings: Mapping[str, float]) -> list[Block]:
    """A red cup among grey paper: who wins the eye, without a wish and with one?"""
    wish = settings["wish"]
    weights, contexts = look([0.0, wish])
    without = both(
        "Without any wish, $w = 0$: what gets most of your attention?", "没有意图（$w = 0$）时，什么最吸引你？"
    )
    cups, pages = number(contexts[1, 0]), number(contexts[1, 1], 0)
    return [
        *OPENING,
        winner(without, weights[0]),
        winner(both(f"And with $w = {wish:g}$?", f"如果 $w = {wish:g}$ 呢？"), weights[1]),
        matrix(both("Weights", "注意力权重"), ("w = 0", f"w = {wish:g}"), OBJECTS, weights),
        wishing(),
        text(
            f"What you take in is the mean of the values by these weights: at $w = {wish:g}$, {cups} cups and {pages} "
            "pages. The keys have not changed, only the query.",
            f"最终得到的是值按权重的平均：$w = {wish:g}$ 时是 {cups} 杯咖啡和 {pages} 页文字。键没有变，变的只是查询。",
        ),
    ]


def winner(asked: LocalizedText, weights: Float[Tensor, " 5"]) -> Block:
    """Which thing gets most?"""
    best = int(weights.argmax())
    share = number(weights[best])
    because = both(
        f"{OBJECTS[best]} has the highest score $q \\cdot k$ and gets {share} of the attention.",
        f"{OBJECTS[best]} 的评分 $q \\cdot k$ 最高，得到 {share} 的注意力。",
    )
    return question(asked, [same(name) for name in OBJECTS], best, because)


def look(wishes: list[float]) -> tuple[Float[Tensor, "W 5"], Float[Tensor, "W 2"]]:
    """Weights and contexts, a row a wish."""
    queries = torch.tensor([[1.0, wish] for wish in wishes])
    read = attend(queries, KEYS, VALUES, score=Dot(), return_weights=True)
    assert read.weights is not None
    return read.weights, read.context


def wishing() -> Block:
    """The cup and the book as the wish grows."""
    wishes = torch.linspace(0, 4, 41)
    weights, _ = look(wishes.tolist())
    return chart(
        both("As the wish grows", "意图由弱到强"),
        same("w"),
        both("weight", "权重"),
        *(series(same(OBJECTS[place]), wishes, weights[:, place], points=False) for place in (COFFEE, BOOK)),
    )
