"""Bahdanau attention: one step of a decoder with all its numbers."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import Attention
from regard.attention.scores import Additive
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
from regard.studio.schema.pages import LessonBlock, TextBlock

SOURCE, TARGET = ("Where", "are", "you"), ("你", "在", "哪里")
ORDER = (2, 1, 0)
"""The source word of each target word: the order is reversed."""
UNITS = ("1", "2", "3")
STATES = torch.cat([torch.eye(3), torch.ones(3, 1)], dim=1)
"""h: a one-hot word, and a 1 for the bias."""
DIRECTIONS = torch.tensor([[math.cos(angle), math.sin(angle)] for angle in (0.0, 2 * math.pi / 3, 4 * math.pi / 3)])
QUERY_WEIGHTS = 1.5 * DIRECTIONS
KEY_WEIGHTS = torch.cat([3 * torch.eye(3), -3 * torch.ones(3, 1)], dim=1)

CONTROLS = (
    control("step", both("Target word", "正在生成第几个词"), low=1.0, high=3.0, step=1.0, value=1.0),
    control("energy", both("Size of v", "v 的大小"), low=0.5, high=4.0, step=0.5, value=2.0),
)

INTRODUCTION = text(
    '"Where are you" is translated to 你在哪里, in reverse order. Before each word, the decoder scores every source '
    "word: its previous state $s$ is the query, the encoder's states $h_j$ are keys and values. The parameters below "
    "are set by hand; a model learns them.",
    "“Where are you”译成“你在哪里”，语序正好相反。生成每个词之前，解码器计算每个源词的分数："
    "解码器的上一状态 $s$ 是查询，编码器状态 $h_j$ 既是键也是值。下面的参数是手工设定的，真实模型会自己学到。",
)
FORMULA = formula(
    r"e_j = v \cdot \tanh(W s + U h_j), \qquad a_j = \frac{\exp(e_j)}{\sum_k \exp(e_k)}, \qquad c = \sum_j a_j h_j"
)
CLOSING = text(
    "$s$ has 2 numbers and $h_j$ has 4: their sizes may differ, because $W$ and $U$ project both to the hidden layer. "
    "$U h_j$ does not depend on the decoder, so it is computed once per sentence. The cost: every pair needs a hidden "
    "layer, where a dot product needs one number.",
    "$s$ 有 2 个数，$h_j$ 有 4 个：维数可以不同，因为 $W$ 与 $U$ 把两者都投影到隐藏层。$U h_j$ 与解码器无关，"
    "每句只需计算一次。代价是：每一对都要计算一个隐藏层，而点积只需要一个数。",
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """The hidden layer, the scores, the weights, the context."""
    step, score = int(settings["step"]) - 1, scorer(settings["energy"])
    state = DIRECTIONS[ORDER[step]]
    # (hidden,) + (words, hidden)
    hidden = score.query_proj(state) + score.prepare(STATES)
    attention = Attention(score)
    attended = attention(state[None], attention.prepare_memory(STATES), return_weights=True)
    assert attended.weights is not None
    scores, weights = score(state[None], score.prepare(STATES))[0], attended.weights[0]
    return [
        INTRODUCTION,
        FORMULA,
        matrix(both("Encoder states h", "编码器状态 h"), SOURCE, ("1", "2", "3", "4"), STATES),
        decoder_state(state, score),
        matrix(both("1. W s + U h: the hidden layer", "1. W s + U h：隐藏层"), SOURCE, UNITS, hidden),
        matrix(both("2. tanh: between -1 and 1", "2. tanh：介于 -1 与 1 之间"), SOURCE, UNITS, hidden.tanh()),
        best_source(step, scores, weights),
        matrix(
            both("3. Scores e, 4. weights a", "3. 分数 e，4. 权重 a"),
            ("e", "a"),
            SOURCE,
            torch.stack([scores, weights]),
        ),
        text(
            f"5. Context: $c$ = {numbers(attended.context[0])}, the weighted sum of the states. It is an input of the "
            f"decoder, which generates {TARGET[step]}.",
            f"5. 上下文：$c$ = {numbers(attended.context[0])}，即各状态的加权和。它作为解码器的输入，"
            f"解码器据此生成“{TARGET[step]}”。",
        ),
        CLOSING,
    ]


def scorer(energy: float) -> Additive:
    """The additive score with the parameters of this page."""
    score = Additive(query_size=2, key_size=4, hidden_size=3)
    # parameters cannot be written in place while their gradients are tracked
    with torch.no_grad():
        score.query_proj.weight.copy_(QUERY_WEIGHTS)
        score.key_proj.weight.copy_(KEY_WEIGHTS)
        score.energy.fill_(energy)
    return score


def decoder_state(state: Float[Tensor, " 2"], score: Additive) -> TextBlock:
    """The query and its projection."""
    projected, energy = numbers(score.query_proj(state)), numbers(score.energy)
    return text(
        f"The decoder's state is $s$ = {numbers(state)}, so $W s$ = {projected}. On this page $v$ = {energy}.",
        f"解码器状态为 $s$ = {numbers(state)}，于是 $W s$ = {projected}。本页的 $v$ = {energy}。",
    )


def best_source(step: int, scores: Float[Tensor, " 3"], weights: Float[Tensor, " 3"]) -> LessonBlock:
    """Which source word does the decoder attend to most?"""
    best = int(weights.argmax())
    score, weight = number(scores[best]), number(weights[best])
    return question(
        both(
            f"$v$ sums each row with equal factors. Which source word gets most weight for {TARGET[step]}?",
            f"$v$ 把每一行等权相加。生成“{TARGET[step]}”时，哪个源词的权重最大？",
        ),
        [same(word) for word in SOURCE],
        best,
        both(
            f'The row of "{SOURCE[best]}" has the largest sum: score {score}, weight {weight}.',
            f"“{SOURCE[best]}”那一行的和最大：分数 {score}，权重 {weight}。",
        ),
    )


LESSON = LessonEntry(
    title=both("Bahdanau attention, step by step", "逐步计算 Bahdanau 注意力"),
    summary=both(
        "One hidden layer compares the decoder's state with every source word.",
        "用一个隐藏层比较解码器状态与每个源词。",
    ),
    controls=CONTROLS,
    build=build,
    code=(Additive, Attention),
)
