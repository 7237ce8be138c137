"""北国的特产 (a speciality of the north): the states of an RNN, and the same states inside a task model.

The parts of a task model are those of Brauwers and Frasincar 2021, section 2. https://arxiv.org/abs/2203.14263
"""

from collections.abc import Mapping

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention
from regard.attention.scores import Dot
from regard.layers import TaskModel
from regard.studio.lessons.blocks import (
    LessonEntry,
    attend_with_weights,
    both,
    control,
    formula,
    glossed,
    matrix,
    number,
    question,
    same,
    text,
)
from regard.studio.schema.pages import LessonBlock

CHARACTERS = "北国的特产"
NAMES = [
    glossed(character, gloss)
    for character, gloss in zip(CHARACTERS, ("north", "country", "of", "special", "product"), strict=True)
]
NORTH, SPECIAL = CHARACTERS.index("北"), CHARACTERS.index("特")
SIZE = len(CHARACTERS)
SHARPNESS, GAIN = 4.0, 5.0
"""Factors of the query and of the output model."""

CONTROLS = (control("recurrence", both("Recurrent weight w", "循环权重 w"), low=0.1, high=1.0, step=0.1, value=0.5),)

INTRODUCTION = text(
    "北国的特产 means a speciality of the north. An RNN encodes it character by character: each state is computed from "
    "the state before and one character. Here every character has a unit of its own, and all weights are set by hand, "
    "so that the numbers show how much of each character is left.",
    "用 RNN 逐字编码“北国的特产”：每个状态由上一个状态和一个字算出。这里每个字各占一个单元，权重都是手工设定的，"
    "因此从这些数就能看出每个字还剩多少。",
)
RECURRENCE = formula(r"h_0 = 0, \qquad h_t = \tanh(w\, h_{t-1} + x_t)")
PARTS = text(
    "A task model has four parts. Feature model: the input becomes features, here $h_1 \\dots h_5$. Query "
    "model: 特 becomes a query $q$; it searches for the origin of the speciality. Attention model: scores, weights, "
    "context. Output model: the context becomes an answer, here the probability of north.",
    "任务模型有四个部分。特征模型：把输入变成特征，这里是 $h_1 \\dots h_5$。查询模型：把“特”变成查询 $q$，"
    "用来查找特产的产地。注意力模型：分数、权重、上下文。输出模型：由上下文得出答案，这里是“北”的概率。",
)
FORMULA = formula(
    r"F = \mathrm{feature}(X), \quad q = \mathrm{query}(Z), \quad c = \mathrm{attention}(q, F), \quad "
    r"\hat{y} = \mathrm{output}(c)"
)
CLOSING = text(
    "Any of the four parts may be exchanged: a CNN or an embedding as feature model, another decoder state as query, "
    "another score, another output layer. The studio describes every system with these four words.",
    "四个部分都可以单独替换：特征模型可以换成 CNN 或嵌入层，查询可以换成解码器的状态，评分函数和输出层也都可以换。"
    "工作台介绍每个系统时，都按这四个部分来讲。",
)


class Recurrence(nn.Module):
    """The feature model: an RNN whose states are the features."""

    def __init__(self, weight: float) -> None:
        super().__init__()
        self.weight = weight

    def forward(self, inputs: Int[Tensor, " L"]) -> Float[Tensor, "L size"]:
        """The states h_1 to h_L."""
        state, states = torch.zeros(SIZE), []
        for character in torch.eye(SIZE)[inputs]:
            state = torch.tanh(self.weight * state + character)
            states.append(state)
        return torch.stack(states)


def fixed_linear(weight: Float[Tensor, "output input"]) -> nn.Module:
    """A linear layer with this weight."""
    # on the meta device, so that no random numbers are drawn
    output_size, input_size = weight.shape
    layer = nn.Linear(input_size, output_size, bias=False, device="meta")
    layer.weight = nn.Parameter(weight)
    return layer


def make_task_model(recurrence: float) -> TaskModel:
    """The query of 特 matches 北; the output model compares north with a constant."""
    query_weight = torch.zeros(SIZE, SIZE)
    query_weight[NORTH, SPECIAL] = SHARPNESS
    answer = torch.zeros(2, SIZE)
    answer[0, NORTH] = GAIN
    return TaskModel(
        feature_model=Recurrence(recurrence),
        query_model=nn.Sequential(nn.Embedding.from_pretrained(torch.eye(SIZE)), fixed_linear(query_weight)),
        attention=Attention(Dot()),
        output_model=nn.Sequential(fixed_linear(answer), nn.Softmax(dim=-1)),
    )


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """The states, then the four parts."""
    model, sentence = make_task_model(settings["recurrence"]), torch.arange(SIZE)
    features, query = model.feature_model(sentence), model.query_model(torch.tensor([SPECIAL]))
    weights, context = attend_with_weights(query, features, score=Dot())
    answer = model(sentence, torch.tensor([SPECIAL]))[0, 0]
    alone = model.output_model(features[-1:])[0, 0]
    left = number(features[-1, NORTH])
    return [
        INTRODUCTION,
        RECURRENCE,
        least_left(features[-1]),
        matrix(
            both("Feature model: the states", "特征模型：各状态"), [f"h{t + 1}" for t in range(SIZE)], NAMES, features
        ),
        text(
            f"In $h_5$, {left} is left of 北. With only this state, the output model gives north the probability "
            f"{number(alone)}; 0.5 is a guess.",
            f"$h_5$ 里“北”还剩 {left}。只用这一个状态时，输出模型给“北”的概率是 {number(alone)}；0.5 相当于猜测。",
        ),
        PARTS,
        FORMULA,
        most_important(weights[0]),
        matrix(
            both("Attention model: weights of 特 on the states", "注意力模型：“特”对各状态的权重"),
            [glossed("特", "special")],
            [f"h{t + 1}" for t in range(SIZE)],
            weights,
        ),
        matrix(
            both("The context, and the last state", "上下文与最后的状态"),
            ("c", "h5"),
            NAMES,
            torch.cat([context, features[-1:]]),
        ),
        text(
            f"Output model: north has probability {number(answer)} from the context, {number(alone)} from $h_5$.",
            f"输出模型：由上下文得到“北”的概率为 {number(answer)}，由 $h_5$ 得到 {number(alone)}。",
        ),
        CLOSING,
    ]


def least_left(state: Float[Tensor, " size"]) -> LessonBlock:
    """Of which character is the least left in the last state?"""
    least = int(state.argmin())
    return question(
        both("Of which character does $h_5$ contain the least?", "$h_5$ 里哪个字剩得最少？"),
        NAMES,
        least,
        both(
            f"{CHARACTERS[least]}: {number(state[least])}, against {number(state[-1])} of {CHARACTERS[-1]}. What came "
            "early has passed through w and tanh most often.",
            f"“{CHARACTERS[least]}”：{number(state[least])}，而“{CHARACTERS[-1]}”是 {number(state[-1])}。"
            "越早的字，经过 w 与 tanh 的次数越多。",
        ),
    )


def most_important(weights: Float[Tensor, " L"]) -> LessonBlock:
    """Which state is the most important for 特?"""
    best = int(weights.argmax())
    return question(
        both("Which feature contains what matters most for 特?", "哪个特征包含对“特”最重要的信息？"),
        [same(f"$h_{t + 1}$") for t in range(SIZE)],
        best,
        both(
            f"$h_{best + 1}$, with weight {number(weights[best])}: attention takes it directly, whatever follows it.",
            f"$h_{best + 1}$，权重 {number(weights[best])}：注意力直接取用它，与它后面有多少字无关。",
        ),
    )


LESSON = LessonEntry(
    title=both("北国的特产: RNN states, and the task model", "北国的特产：RNN 的状态与任务模型"),
    summary=both(
        "What is left of the first character after five steps; feature, query, attention and output model.",
        "五步之后，第一个字还剩多少；特征模型、查询模型、注意力模型与输出模型。",
    ),
    controls=CONTROLS,
    build=build,
    code=(TaskModel, Attention, Dot),
)
