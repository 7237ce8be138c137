"""Bahdanau's attention, one step of a decoder, with every number in sight."""

import math
from collections.abc import Mapping

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import Attention
from regard.attention.scores import Additive
from regard.studio.lessons.blocks import both, control, formula, matrix, number, numbers, question, same, text
from regard.studio.schema.pages import Block, TextBlock

SOURCE, TARGET = ("Where", "are", "you"), ("你", "在", "哪里")
ORDER = (2, 1, 0)
"""Which source word each target word is about: the order turns round."""
UNITS = ("1", "2", "3")
STATES = torch.cat([torch.eye(3), torch.ones(3, 1)], dim=1)
"""h: which word it is, and a 1 that carries a threshold."""
DIRECTIONS = torch.tensor([[math.cos(angle), math.sin(angle)] for angle in (0.0, 2 * math.pi / 3, 4 * math.pi / 3)])
QUERY_WEIGHTS = 1.5 * DIRECTIONS
KEY_WEIGHTS = torch.cat([3 * torch.eye(3), -3 * torch.ones(3, 1)], dim=1)

CONTROLS = (
    control("step", both("Word being written", "正在写第几个词"), low=1.0, high=3.0, step=1.0, value=1.0),
    control("energy", both("Size of v", "v 的大小"), low=0.5, high=4.0, step=0.5, value=2.0),
)

INTRODUCTION = text(
    '"Where are you" becomes 你在哪里, in the opposite order. Before it writes a word, the decoder asks every source '
    "word how useful it would be: its previous state $s$ is the query, the encoder's states $h_j$ are keys and values. "
    "The weights below were set by hand; a model learns them.",
    "“Where are you” 译成“你在哪里”，语序正好相反。写每个词之前，解码器都会问每个源词“你有多大用处”："
    "解码器的上一状态 $s$ 是查询，编码器状态 $h_j$ 既是键也是值。下面的权重是手工设定的，真实模型会自己学到。",
)
FORMULA = formula(
    r"e_j = v \cdot \tanh(W s + U h_j), \qquad a_j = \frac{\exp(e_j)}{\sum_k \exp(e_k)}, \qquad c = \sum_j a_j h_j"
)
CLOSING = text(
    "$s$ has 2 numbers and $h_j$ has 4: they may differ in size, for $W$ and $U$ bring both to the hidden layer. "
    "$U h_j$ does not depend on the decoder, so it is computed once a sentence. The price: every pair has a hidden "
    "layer of its own, where a dot product needs one number.",
    "$s$ 有 2 个数，$h_j$ 有 4 个：大小可以不同，因为 $W$ 与 $U$ 会把两者都变换到隐藏层。$U h_j$ 与解码器无关，"
    "整句只需算一次。代价是：每一对都要有自己的一层隐藏单元，而点积只需要一个数。",
)


def build(settings: Mapping[str, float]) -> list[Block]:
    """The hidden layer, the scores, the weights, the context."""
    step, score = int(settings["step"]) - 1, scorer(settings["energy"])
    state = DIRECTIONS[ORDER[step]]
    hidden = score.query_proj(state) + score.prepare(STATES)
    attention = Attention(score)
    read = attention(state[None], attention.prepare_memory(STATES), return_weights=True)
    assert read.weights is not None
    scores, weights = score(state[None], score.prepare(STATES))[0], read.weights[0]
    return [
        INTRODUCTION,
        FORMULA,
        matrix(both("Encoder states h", "编码器状态 h"), SOURCE, ("1", "2", "3", "4"), STATES),
        told_first(state, score),
        matrix(both("1. W s + U h: both in one layer", "1. W s + U h：放进同一层"), SOURCE, UNITS, hidden),
        matrix(both("2. tanh: between -1 and 1", "2. tanh：压到 -1 与 1 之间"), SOURCE, UNITS, hidden.tanh()),
        best_source(step, scores, weights),
        matrix(
            both("3. Scores e, 4. weights a", "3. 评分 e，4. 权重 a"),
            ("e", "a"),
            SOURCE,
            torch.stack([scores, weights]),
        ),
        text(
            f"5. Read: $c$ = {numbers(read.context[0])}, the mean of the states by these weights. It enters the "
            f"decoder, which writes {TARGET[step]}.",
            f"5. 读取：$c$ = {numbers(read.context[0])}，即各状态按权重的平均。它进入解码器，"
            f"解码器写出“{TARGET[step]}”。",
        ),
        CLOSING,
    ]


def scorer(energy: float) -> Additive:
    """The additive score with the weights of this page."""
    score = Additive(query_size=2, key_size=4, hidden_size=3)
    with torch.no_grad():
        score.query_proj.weight.copy_(QUERY_WEIGHTS)
        score.key_proj.weight.copy_(KEY_WEIGHTS)
        score.energy.fill_(energy)
    return score


def told_first(state: Float[Tensor, " 2"], score: Additive) -> TextBlock:
    """What the decoder brings."""
    projected, energy = numbers(score.query_proj(state)), numbers(score.energy)
    return text(
        f"The decoder brings $s$ = {numbers(state)}, so $W s$ = {projected}. The page's $v$ is {energy}.",
        f"解码器给出 $s$ = {numbers(state)}，于是 $W s$ = {projected}。本页的 $v$ = {energy}。",
    )


def best_source(step: int, scores: Float[Tensor, " 3"], weights: Float[Tensor, " 3"]) -> Block:
    """Where does the decoder look?"""
    best = int(weights.argmax())
    score, weight = number(scores[best]), number(weights[best])
    return question(
        both(
            f"$v$ adds up each row with equal parts. Which source word is looked at most, to write {TARGET[step]}?",
            f"$v$ 把每一行等权相加。要写“{TARGET[step]}”，最该看哪个源词？",
        ),
        [same(word) for word in SOURCE],
        best,
        both(
            f'"{SOURCE[best]}" has the highest row: its score is {score}, its weight {weight}.',
            f"“{SOURCE[best]}” 那一行的和最大：评分 {score}，权重 {weight}。",
        ),
    )
