"""Masked softmax, written out: what may not be read gets exactly nothing, before the sharing and not after."""

from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.studio.lessons.blocks import both, control, formula, matrix, number, numbers, question, same, text
from regard.studio.schema.pages import Block

WORDS = ("我", "吃了", "苹果", "<pad>")
SCORES = torch.tensor([2.0, 1.0, 0.5, 3.0])
REAL = torch.tensor([True, True, True, False])

CONTROLS = (control("temperature", both("Temperature T", "温度 T"), low=0.2, high=5.0, step=0.1, value=1.0),)

INTRODUCTION = text(
    "Sentences of a batch are padded to one length. The padding has a score like every word, here even the highest, "
    "and must not be read.",
    "一批句子要补齐到同样长度。补上的 <pad> 和别的词一样有评分，这里甚至最高，但绝不能被读到。",
)
FORMULA = formula(r"w_j = \frac{m_j \exp(s_j / T)}{\sum_i m_i \exp(s_i / T)}, \qquad m_j \in \{0, 1\}")


def build(settings: Mapping[str, float]) -> list[Block]:
    """Mask after, mask before, and a row with nothing to read."""
    scores = SCORES / settings["temperature"]
    plain, masked, empty = (masked_softmax(scores, one) for one in (REAL | True, REAL, REAL & False))
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
        too_late(after),
        FORMULA,
        matrix(
            both("The two orders", "两种次序"), ("softmax, × mask", "−∞, softmax"), WORDS, torch.stack([after, masked])
        ),
        text(
            f"So the score is replaced before: $\\exp(-\\infty) = 0$, and the words share all: {numbers(masked)}. "
            "A low temperature sharpens the sharing, a high one evens it out; the padding has 0 at any.",
            f"所以要在 softmax 之前替换评分：$\\exp(-\\infty) = 0$，真正的词分得全部权重 {numbers(masked)}。"
            "温度低则分配更尖锐，温度高则更平均；<pad> 在任何温度下都是 0。",
        ),
        nothing_allowed(scores),
        matrix(both("A row with nothing to read", "没有任何可读内容的一行"), ("∅",), WORDS, empty[None]),
        text(
            "Here such a row is zeros, forward and backward: it reads nothing, learns nothing and harms nothing.",
            "在 regard 里这样的行全为零，前向与反向都是：什么也不读，什么也不学，也不会造成任何破坏。",
        ),
    ]


def masked_softmax(scores: Float[Tensor, " K"], allowed: Tensor) -> Float[Tensor, " K"]:
    """The weights of one row."""
    return Softmax()(scores[None], allowed[None]).weights[0]


def too_late(after: Float[Tensor, " K"]) -> Block:
    """What is left when the padding's weight is taken away after the softmax?"""
    total = after.sum().item()
    choices = [same("1"), both("less than 1", "小于 1"), both("more than 1", "大于 1")]
    return question(
        both(
            "Suppose the padding's weight is set to 0 after the softmax. What do the weights sum to?",
            "假如在 softmax 之后才把 <pad> 的权重置零，剩下的权重之和是多少？",
        ),
        choices,
        0 if abs(total - 1) < 1e-6 else 1 if total < 1 else 2,
        both(
            f"They sum to {number(total, 3)}: the words had already shared with the padding. Masking comes too late.",
            f"和为 {number(total, 3)}：真正的词早已和 <pad> 分过一次，掩码来得太晚了。",
        ),
    )


def nothing_allowed(scores: Float[Tensor, " K"]) -> Block:
    """What does the bare formula make of an empty row?"""
    found = torch.softmax(scores.masked_fill(~(REAL & False), float("-inf")), dim=-1)
    outcomes = (found.isnan().all(), (found == 0).all(), (found > 0).all())
    return question(
        both(
            "Every key is masked: a sentence of padding alone. What does `torch.softmax` of four $-\\infty$ give?",
            "如果所有键都被遮住（整句都是 <pad>），对四个 $-\\infty$ 做 `torch.softmax` 会得到什么？",
        ),
        [same("NaN"), both("zeros", "全零"), both("equal shares", "平均分配")],
        [bool(one) for one in outcomes].index(True),
        both(
            "The formula says 0 / 0. The next layer spreads the NaN over the batch, the gradient over the whole model.",
            "公式变成 0 / 0，即 NaN。下一层会把它传遍整个批次，梯度会把它传遍整个模型。",
        ),
    )
