"""Masked softmax step by step: masked keys get weight 0 because the mask is applied before the softmax."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.studio.lessons.blocks import (
    LessonEntry,
    both,
    control,
    formula,
    matrix,
    number,
    numbers,
    question,
    same,
    text,
)
from regard.studio.schema.pages import LessonBlock

WORDS = ("我", "吃了", "苹果", "<pad>")
SCORES = torch.tensor([2.0, 1.0, 0.5, 3.0])
REAL = torch.tensor([True, True, True, False])

CONTROLS = (control("temperature", both("Temperature T", "温度 T"), low=0.2, high=5.0, step=0.1, value=1.0),)

INTRODUCTION = text(
    "The sentences of a batch are padded to one length. The padding has a score like every word, here even the "
    "highest, but its weight must be 0.",
    "一批句子要填充到同样长度。填充 <pad> 和别的词一样有分数，这里甚至最高，但它的权重必须为 0。",
)
FORMULA = formula(r"w_j = \frac{m_j \exp(s_j / T)}{\sum_i m_i \exp(s_i / T)}, \qquad m_j \in \{0, 1\}")


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Mask after the softmax, mask before it, and a row where everything is masked."""
    scores = SCORES / settings["temperature"]
    # all keys allowed, the real ones, and none
    plain, masked, empty = (masked_softmax(scores, mask) for mask in (REAL | True, REAL, REAL & False))
    after = plain * REAL
    steps = torch.stack([SCORES, scores, scores.exp(), plain])
    return [
        INTRODUCTION,
        matrix(
            both("Softmax without a mask, step by step", "不加掩码的 softmax，逐步写出"),
            ("s", "s / T", "exp(s / T)", "softmax"),
            WORDS,
            steps,
        ),
        sum_question(after),
        FORMULA,
        matrix(
            both("Both orders", "两种次序"), ("softmax, × mask", "−∞, softmax"), WORDS, torch.stack([after, masked])
        ),
        text(
            f"So the score is replaced before: $\\exp(-\\infty) = 0$, and the words get all the weight: "
            f"{numbers(masked)}. A low temperature concentrates the weights, a high one evens them out; the padding "
            "has weight 0 at any.",
            f"所以要在 softmax 之前替换分数：$\\exp(-\\infty) = 0$，真正的词得到全部权重 {numbers(masked)}。"
            "温度低则权重更集中，温度高则更平均；<pad> 在任何温度下都是 0。",
        ),
        empty_row_question(scores),
        matrix(both("A row where every key is masked", "所有键都被掩码的一行"), ("∅",), WORDS, empty[None]),
        text(
            "In regard such a row is 0, in the forward and the backward pass: context and gradients are 0.",
            "在 regard 里这样的行全为零，前向与反向都是：上下文与梯度都为 0。",
        ),
    ]


def masked_softmax(scores: Float[Tensor, " K"], allowed: Tensor) -> Float[Tensor, " K"]:
    """The weights of one row."""
    return Softmax()(scores[None], allowed[None]).weights[0]


def sum_question(after: Float[Tensor, " K"]) -> LessonBlock:
    """What do the weights sum to if the mask is applied after the softmax?"""
    total = after.sum().item()
    choices = [same("1"), both("less than 1", "小于 1"), both("more than 1", "大于 1")]
    return question(
        both(
            "Suppose the padding's weight is set to 0 after the softmax. What do the weights sum to?",
            "假如在 softmax 之后才把 <pad> 的权重置零，权重之和是多少？",
        ),
        choices,
        0 if abs(total - 1) < 1e-6 else 1 if total < 1 else 2,
        both(
            f"They sum to {number(total, 3)}: the softmax has already given the rest to the padding.",
            f"和为 {number(total, 3)}：softmax 已经把其余的权重分给了 <pad>。",
        ),
    )


def empty_row_question(scores: Float[Tensor, " K"]) -> LessonBlock:
    """What is the plain softmax of an empty row?"""
    # torch's softmax, without the rule of this package for empty rows
    weights = torch.softmax(scores.masked_fill(~(REAL & False), float("-inf")), dim=-1)
    outcomes = (weights.isnan().all(), (weights == 0).all(), (weights > 0).all())
    return question(
        both(
            "Every key is masked: a sentence of padding alone. What does `torch.softmax` of four $-\\infty$ give?",
            "如果所有键都被掩码（整句都是 <pad>），对四个 $-\\infty$ 做 `torch.softmax` 会得到什么？",
        ),
        [same("NaN"), both("zeros", "全零"), both("equal shares", "平均分配")],
        [bool(outcome) for outcome in outcomes].index(True),
        both(
            "The formula gives 0 / 0. The next layer spreads the NaN over the batch, the gradient over the model.",
            "公式变成 0 / 0，即 NaN。下一层会把它传到整个批次，梯度会把它传到整个模型。",
        ),
    )


LESSON = LessonEntry(
    title=both("Masked softmax", "掩码 softmax"),
    summary=both(
        "How padding gets weight 0, and what happens if everything is masked.",
        "填充怎样得到权重 0，以及全部被掩码时会怎样。",
    ),
    controls=CONTROLS,
    build=build,
    code=(Softmax,),
)
