"""A set, not a sequence: attention without positions does not see the order of X1, X2, X3."""

from collections.abc import Mapping
from itertools import permutations

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.positions import Sinusoidal
from regard.studio.lessons.blocks import (
    LessonEntry,
    both,
    control,
    formula,
    make_generator,
    matrix,
    number,
    question,
    text,
)
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.pages import LessonBlock

NAMES = ("X1", "X2", "X3")
SIZE = 4
ORDERS = [order for order in permutations(range(len(NAMES))) if order != tuple(range(len(NAMES)))]
"""Every order but the original one."""
ROUNDING = 1e-5

CONTROLS = (
    control("order", both("Order number", "第几种顺序"), low=1.0, high=float(len(ORDERS)), step=1.0, value=4.0),
    control("seed", both("Seed of the vectors", "向量的随机种子"), low=0.0, high=99.0, step=1.0, value=0.0),
)

INTRODUCTION = text(
    "Three inputs X1, X2, X3 in an order of your choice. Self-attention gives one output for each. What does the order "
    "change?",
    "三个输入 X1、X2、X3，顺序由你选择。自注意力为每个输入给出一个输出。顺序会改变什么？",
)
FORMULA = formula(r"f(PX) = P\,f(X) \quad (\mathrm{self}), \qquad f(q, PX) = f(q, X) \quad (\mathrm{cross})")
CLOSING = text(
    "$P$ is the permutation. So cross-attention reads a set: words of a sentence, cells of an image, frames of a "
    "sound. Where the order matters it has to be put into the vectors, as position encodings do, or the order must "
    "be broken by a mask.",
    "$P$ 是置换。所以交叉注意力读入的是一个集合：句子里的词、图像里的格子、声音里的帧都可以。"
    "如果顺序重要，就要像位置编码那样把它写进向量，或者用掩码打破对称。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Self-attention and cross-attention with and without positions."""
    order = torch.tensor(ORDERS[int(settings["order"]) - 1])
    generator = make_generator(int(settings["seed"]))
    inputs, query = torch.randn(len(NAMES), SIZE, generator=generator), torch.randn(1, SIZE, generator=generator)
    names = [NAMES[index] for index in order.tolist()]
    outputs, permuted = self_attention(inputs), self_attention(inputs[order])
    memory = torch.cat([attend(query, rows, rows).context for rows in (inputs, inputs[order])])
    # the permuted outputs of the original order against the outputs of the permuted inputs
    deviations = torch.tensor(
        [
            [
                deviation(run(rows)[order], run(rows[order]))
                for run, rows in ((self_attention, inputs), (with_positions, inputs))
            ],
            [deviation(cross(query, inputs, use), cross(query, inputs[order], use)) for use in (False, True)],
        ]
    )
    columns = [str(dimension + 1) for dimension in range(SIZE)]
    title = both(", ".join(names), "、".join(names))
    return [
        INTRODUCTION,
        self_question(outputs, permuted, order, title),
        matrix(both("Outputs for X1, X2, X3", "X1、X2、X3 的输出"), NAMES, columns, outputs),
        matrix(both(f"Outputs for {title.en}", f"{title.zh} 的输出"), names, columns, permuted),
        cross_question(memory),
        matrix(
            both("Cross-attention: the context of one query", "交叉注意力：一个查询的上下文"),
            (both(", ".join(NAMES), "、".join(NAMES)), title),
            columns,
            memory,
        ),
        FORMULA,
        positions_question(deviations[0, 1].item()),
        matrix(
            both("Largest deviation from the permuted result", "与置换后结果的最大偏差"),
            (both("self-attention", "自注意力"), both("cross-attention", "交叉注意力")),
            (both("without positions", "无位置编码"), both("sinusoidal", "正弦位置编码")),
            deviations,
        ),
        CLOSING,
    ]


def self_attention(inputs: Float[Tensor, "K size"]) -> Float[Tensor, "K size"]:
    """The contexts; queries, keys and values are the inputs."""
    return attend(inputs, inputs, inputs).context


def with_positions(inputs: Float[Tensor, "K size"]) -> Float[Tensor, "K size"]:
    """The contexts of inputs with sinusoidal positions added."""
    return self_attention(Sinusoidal(hidden_size=SIZE)(inputs))


def cross(query: Float[Tensor, "1 size"], inputs: Float[Tensor, "K size"], use_positions: bool) -> Tensor:
    """The context of one query over the inputs."""
    keys = Sinusoidal(hidden_size=SIZE)(inputs) if use_positions else inputs
    return attend(query, keys, keys).context


def deviation(one: Float[Tensor, "*K size"], other: Float[Tensor, "*K size"]) -> float:
    """The largest difference."""
    return float((one - other).abs().max())


def self_question(
    outputs: Float[Tensor, "K size"], permuted: Float[Tensor, "K size"], order: Tensor, title: LocalizedText
) -> LessonBlock:
    """What happens to the outputs of self-attention?"""
    outcomes = (deviation(outputs[order], permuted), deviation(outputs, permuted))
    same_rows, unchanged = (value < ROUNDING for value in outcomes)
    return question(
        both(
            f"The inputs come in the order {title.en}. What happens to the outputs of self-attention?",
            f"输入的顺序换成 {title.zh}，自注意力的输出会怎样？",
        ),
        [
            both("the same rows, permuted alike", "还是那些行，顺序跟着变"),
            both("nothing changes", "什么都不变"),
            both("all numbers change", "所有数都变"),
        ],
        0 if same_rows else 1 if unchanged else 2,
        both(
            f"The largest deviation of the permuted rows is {outcomes[0]:.0e}: it is permutation-equivariant.",
            f"置换后各行的最大偏差是 {outcomes[0]:.0e}：自注意力是置换等变的。",
        ),
    )


def cross_question(memory: Float[Tensor, "2 size"]) -> LessonBlock:
    """Does the context of a query depend on the order of its memory?"""
    difference = deviation(memory[0], memory[1])
    return question(
        both(
            "One query of a decoder attends to the inputs. Does its context depend on their order?",
            "解码器的一个查询关注这些输入。它的上下文与输入的顺序有关吗？",
        ),
        [both("yes", "有关"), both("no", "无关")],
        int(difference < ROUNDING),
        both(
            f"The difference is {difference:.0e}. A weighted sum has no order: cross-attention is invariant.",
            f"相差 {difference:.0e}。加权和与顺序无关：交叉注意力是置换不变的。",
        ),
    )


def positions_question(difference: float) -> LessonBlock:
    """Does it still hold with positions?"""
    return question(
        both(
            "Sinusoidal positions are added to the inputs. Are the outputs still the same rows?",
            "给输入加上正弦位置编码，输出还是那些行吗？",
        ),
        [both("yes", "是"), both("no", "不是")],
        int(difference > ROUNDING),
        both(
            f"The largest deviation is {number(difference)}: a vector is now different at another position.",
            f"最大偏差是 {number(difference)}：同一个向量放到别的位置就不同了。",
        ),
    )


LESSON = LessonEntry(
    title=both("The order of a set: X1, X2, X3", "集合没有顺序：X1、X2、X3"),
    summary=both(
        "What changes if the inputs are permuted: in self-attention, in cross-attention, and with positions.",
        "输入换了顺序会怎样：自注意力、交叉注意力，以及加上位置编码。",
    ),
    controls=CONTROLS,
    build=build,
    code=(attend, Sinusoidal),
    experiment="permutation",
)
