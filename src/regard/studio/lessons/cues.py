"""Voluntary and involuntary cues: keys, a query and values on a desk."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.scores import Dot
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
from regard.studio.schema.pages import LessonBlock

OBJECTS = (
    both("newspaper", "报纸"),
    both("paper", "论文"),
    both("coffee", "咖啡"),
    both("notebook", "笔记本"),
    both("book", "书"),
)
COFFEE, BOOK = 2, 4
KEYS = torch.tensor([[0.2, 0.8], [0.1, 0.7], [2.2, 0.0], [0.1, 0.3], [0.3, 1.2]])
"""How red each object is, and how much text it has."""
VALUES = torch.tensor([[0.0, 24.0], [0.0, 10.0], [1.0, 0.0], [0.0, 0.0], [0.0, 300.0]])
"""Cups and pages."""

CONTROLS = (
    control("wish", both("How much you want to read, w", "想阅读的程度 w"), low=0.0, high=4.0, step=0.5, value=2.0),
)


OPENING: tuple[LessonBlock, ...] = (
    text(
        "On a desk there are four grey objects made of paper and a red cup of coffee. The cup stands out by its "
        "colour: an involuntary cue. If you want to read, you search for something else: a voluntary cue.",
        "桌上有四样灰色的纸制品，还有一杯用红色杯子装的咖啡。杯子因颜色而显眼：这是非自主提示。"
        "如果你想阅读，就会主动去找别的东西：这是自主提示。",
    ),
    matrix(
        both("The keys: features of the objects", "键：各物体的特征"),
        OBJECTS,
        (both("red", "红"), both("text", "文字")),
        KEYS,
    ),
    text(
        "A key is the involuntary cue: the features of an object. The query is the voluntary cue, here $q = (1, w)$: "
        "red has factor 1, text has factor $w$. The value is what attention returns.",
        "键（key）是非自主提示，即物体的特征。查询（query）是自主提示，这里是 $q = (1, w)$："
        "红色的系数是 1，文字的系数是 $w$。值（value）是注意力返回的内容。",
    ),
    formula(r"\alpha_i = \mathrm{softmax}_i(q \cdot k_i), \qquad c = \sum_i \alpha_i v_i"),
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """The weights without and with the intention to read."""
    wish = settings["wish"]
    weights, contexts = attend_to_objects([0.0, wish])
    without = both(
        "Without an intention, $w = 0$: which object gets most weight?", "不想阅读（$w = 0$）时，哪个物体的权重最大？"
    )
    cups, pages = number(contexts[1, 0]), number(contexts[1, 1], 0)
    return [
        *OPENING,
        most_weight(without, weights[0]),
        most_weight(both(f"And with $w = {wish:g}$?", f"如果 $w = {wish:g}$ 呢？"), weights[1]),
        matrix(both("Weights", "注意力权重"), ("w = 0", f"w = {wish:g}"), OBJECTS, weights),
        curves(),
        text(
            f"The result is the weighted sum of the values: at $w = {wish:g}$, {cups} cups and {pages} pages. The keys "
            "have not changed, only the query.",
            f"结果是值的加权和：$w = {wish:g}$ 时是 {cups} 杯咖啡和 {pages} 页文字。键没有变，变的只是查询。",
        ),
    ]


def most_weight(prompt: LocalizedText, weights: Float[Tensor, " 5"]) -> LessonBlock:
    """Which object gets most weight?"""
    best = int(weights.argmax())
    share = number(weights[best])
    because = both(
        f"{OBJECTS[best].en.capitalize()} has the highest score $q \\cdot k$ and weight {share}.",
        f"{OBJECTS[best].zh}的分数 $q \\cdot k$ 最高，权重为 {share}。",
    )
    return question(prompt, list(OBJECTS), best, because)


def attend_to_objects(wishes: list[float]) -> tuple[Float[Tensor, "W 5"], Float[Tensor, "W 2"]]:
    """Weights and contexts, one row per value of w."""
    # the factor of red is fixed
    queries = torch.tensor([[1.0, wish] for wish in wishes])
    return attend_with_weights(queries, KEYS, VALUES, score=Dot())


def curves() -> LessonBlock:
    """The weights of the cup and the book by w."""
    wishes = torch.linspace(0, 4, 41)
    weights, _ = attend_to_objects(wishes.tolist())
    return chart(
        both("Weights by w", "权重随 w 的变化"),
        same("w"),
        both("weight", "权重"),
        *(series(OBJECTS[index], wishes, weights[:, index], points=False) for index in (COFFEE, BOOK)),
    )


LESSON = LessonEntry(
    title=both("Voluntary and involuntary cues", "自主提示与非自主提示"),
    summary=both(
        "Keys, a query and values: a cup of coffee among papers.",
        "键、查询与值：纸堆里的一杯咖啡。",
    ),
    controls=CONTROLS,
    build=build,
    code=(attend, Dot),
)
