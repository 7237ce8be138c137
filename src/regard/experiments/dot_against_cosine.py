"""Dot product against cosine: a score that compares lengths too, and one that compares directions only.

    dot     score(q, k) = q . k / sqrt(d)               a long key gets more weight
    cosine  score(q, k) = scale (q . k) / (|q| |k|)     the length of a key has no effect

The claim is that of a lecture's notes: without normalisation a model expresses importance by length and learns the
sharpness of its weights; where length is noise, the direction alone should count. Two tasks with the same
keys, which are directions times random lengths. In the first, four keys point in the query's direction, and the
longest of them is the answer; in the second one key does, and its length means nothing. W_q and W_k are learned,
without a bias, which would turn length into direction. Refuted if cosine finds the longest key, or dot the direction
among lengths.
Vaswani et al. 2017, section 3.2.1. https://arxiv.org/abs/1706.03762
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import Attention
from regard.attention.scores import Cosine, ScaledDot
from regard.contracts import Score, Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, is_above
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, label_point, line, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row, digits
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.training import fit

TITLE = Title(en="Dot product against cosine", zh="点积与余弦")
CLAIM = Title(
    en=(
        "The dot product wins where a long key means importance, the cosine where only the direction counts; "
        "a dot product learns the sharpness of its weights, a cosine needs a scale."
    ),
    zh="键的长度表示重要程度时点积更好，只有方向有意义时余弦更好；点积能自己学出权重的锐度，余弦需要一个系数。",
)
CHINESE = {
    "task": "任务",
    "spread of lengths": "长度的离散程度",
    "accuracy": "准确率",
    "weight on the answer": "答案上的权重",
    "cosine": "余弦",
    "cosine, scale 1": "余弦（系数为 1）",
    "length is importance": "长度表示重要",
    "length is noise": "长度是噪声",
    "Length is importance: the longest of 4 keys": "长度表示重要：4 个键中最长的一个",
    "Length is noise: the key with the right direction": "长度是噪声：方向正确的键",
    "spread of the logarithm of the lengths": "长度对数的标准差",
    "share of right answers": "正确率",
    "chance: 1 of 4": "随机水平：4 选 1",
}
IMPORTANCE, NOISE = "length is importance", "length is noise"
SCALE = 20.0
"""Of the cosine: at 1 no weight can be large."""

SCORES: dict[str, Callable[[], Score]] = {
    "scaled dot": ScaledDot,
    "cosine": partial(Cosine, scale=SCALE),
    "cosine, scale 1": Cosine,
}
NUM_CANDIDATES = 4


@dataclass(frozen=True)
class KeyProblem:
    """Queries, keys, and the index of the key that answers."""

    queries: Float[Tensor, "B 1 size"]
    keys: Float[Tensor, "B K size"]
    answers: Int[Tensor, " B"]


def draw_problem(task: str, count: int, *, spread: float, num_keys: int, size: int) -> KeyProblem:
    """Random directions with log-normal lengths; the query is near the direction of one key, or of four."""
    queries, keys = F.normalize(torch.randn(count, 1, size), dim=-1), torch.randn(count, num_keys, size)
    num_near = NUM_CANDIDATES if task == IMPORTANCE else 1
    # noise of norm 0.3 on average: the direction is similar, not equal
    keys[:, :num_near] = queries + 0.3 * size**-0.5 * torch.randn(count, num_near, size)
    lengths = (spread * torch.randn(count, num_keys)).exp()
    keys = F.normalize(keys, dim=-1) * lengths.unsqueeze(-1)
    # the order of keys has no meaning to attention, so the near ones may come first
    return KeyProblem(queries, keys, lengths[:, :num_near].argmax(dim=1))


class Lookup(nn.Module):
    """One attention with learned projections of queries and keys; its weights are the answer."""

    def __init__(self, score: Score, size: int) -> None:
        super().__init__()
        self.query_proj, self.key_proj = (nn.Linear(size, size, bias=False) for _ in range(2))
        self.attention = Attention(score=score)
        # the comparison as it is, from which learning begins in every system
        for proj in (self.query_proj, self.key_proj):
            nn.init.eye_(proj.weight)

    def forward(self, problem: KeyProblem) -> Float[Tensor, "B K"]:
        """The weight of every key."""
        memory = self.attention.prepare_memory(self.key_proj(problem.keys))
        weights = self.attention(self.query_proj(problem.queries), memory, return_weights=True).weights
        assert weights is not None
        return weights[:, 0]


@dataclass(frozen=True)
class Answers:
    """How often the answer has the largest weight, and its weight on average."""

    accuracy: float
    weight: float


Results = dict[tuple[str, float, str], list[Answers]]
"""By task, spread of the lengths, and score; one per seed."""


def train_and_test(seed: int, score: Score, draw: Callable[[int], KeyProblem], *, steps: int, size: int) -> Answers:
    """Train the projections on new problems at every step, then answer others."""
    with seeded(seed):
        model = Lookup(score, size)

        def loss_of(step: int) -> Tensor:
            problem = draw(64)
            weights = model(problem).gather(1, problem.answers[:, None])
            # a weight of 0 in float32 has no logarithm
            return -weights.clamp_min(1e-12).log().mean()

        fit(model, loss_of, steps=steps, learning_rate=0.02)
        problem = draw(2000)
        with torch.no_grad():
            weights = model(problem)
        right = weights.argmax(dim=1) == problem.answers
        weight = weights.gather(1, problem.answers[:, None])
    return Answers(accuracy=right.double().mean().item(), weight=weight.double().mean().item())


def run(
    *,
    seed: int = 0,
    repeats: int = 3,
    steps: int = 200,
    size: int = 16,
    num_keys: int = 8,
    spreads: Sequence[float] = (0.1, 0.5, 1.0, 1.5),
) -> Finding:
    """Train every score on both tasks, for several spreads of the lengths of the keys."""
    results: Results = {}
    for task in (IMPORTANCE, NOISE):
        for spread in spreads:
            draw = partial(draw_problem, task, spread=spread, num_keys=num_keys, size=size)
            for name, make_score in SCORES.items():
                results[task, spread, name] = [
                    train_and_test(1000 * seed + index, make_score(), draw, steps=steps, size=size)
                    for index in range(repeats)
                ]
    rows: list[Row] = [
        {
            "task": task,
            "spread of lengths": spread,
            "score": name,
            "accuracy": Measured.of(one.accuracy for one in answers),
            "weight on the answer": Measured.of(one.weight for one in answers),
        }
        for (task, spread, name), answers in results.items()
    ]
    holds, verdict = judge(results, spreads[-1], num_keys)
    return Finding(
        name="dot_against_cosine",
        claim=CLAIM,
        rows=tuple(rows),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, results=results, spreads=spreads),
    )


def judge(results: Results, spread: float, num_keys: int) -> tuple[bool | None, Title]:
    """Each wins its task, by accuracy, where lengths differ most; the scale of 1 limits the weight on the answer."""
    accuracies = {key: [one.accuracy for one in answers] for key, answers in results.items()}
    weights = {key: [one.weight for one in answers] for key, answers in results.items()}
    dot_wins = is_above(accuracies[IMPORTANCE, spread, "scaled dot"], accuracies[IMPORTANCE, spread, "cosine"])
    cosine_wins = is_above(accuracies[NOISE, spread, "cosine"], accuracies[NOISE, spread, "scaled dot"])
    sharp = is_above(weights[IMPORTANCE, spread, "scaled dot"], weights[IMPORTANCE, spread, "cosine, scale 1"])
    # all other keys point away from the query
    bound = math.e**2 / (math.e**2 + num_keys - 1)
    parts = [
        f"{Measured.of(accuracies[task, spread, name])}"
        for task in (IMPORTANCE, NOISE)
        for name in ("scaled dot", "cosine")
    ]
    unscaled = Measured.of(weights[NOISE, spread, "cosine, scale 1"])
    words = {True: "wins", False: "loses", None: "is not clearly better"}
    english = (
        f"With lengths that spread by {digits(spread, 2)} (in logarithms): where length is importance the dot product "
        f"is right in {parts[0]} of all cases and the cosine in {parts[1]}: dot {words[dot_wins]}. Where length is "
        f"noise it is {parts[2]} against {parts[3]}: the cosine {words[cosine_wins]}. With scale 1 a cosine gives the "
        f"answer a weight of {unscaled}, and could never give more than {digits(bound, 2)} among {num_keys} keys."
    )
    words = {True: "更好", False: "更差", None: "没有明显更好"}
    chinese = (
        f"长度的对数标准差为 {digits(spread, 2)} 时：长度表示重要的任务中，点积的正确率为 {parts[0]}，余弦为 "
        f"{parts[1]}：点积{words[dot_wins]}。长度是噪声的任务中，分别为 {parts[2]} 和 {parts[3]}："
        f"余弦{words[cosine_wins]}。系数为 1 的余弦给答案的权重为 {unscaled}，"
        f"有 {num_keys} 个键时最多也只能给 {digits(bound, 2)}。"
    )
    return all_of(dot_wins, cosine_wins, sharp), Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, results: Results, spreads: Sequence[float]) -> None:
    """Accuracy against the spread of the lengths, a panel for each task."""
    titles = ("Length is importance: the longest of 4 keys", "Length is noise: the key with the right direction")
    for axes, task, heading in zip(panels(figure, CLAIM, 2), (IMPORTANCE, NOISE), titles, strict=True):
        for name, colour in zip(SCORES, (BLUE, ORANGE, GREEN), strict=True):
            means = [Measured.of(one.accuracy for one in results[task, spread, name]) for spread in spreads]
            # the two cosines are right equally often, and their lines would hide each other
            if name != "cosine, scale 1":
                line(axes, spreads, means, colour)
                side = "above" if task == IMPORTANCE or name == "cosine" else "below"
                label_point(axes, spreads[-1], means[-1].mean, name, colour, side=f"left {side}")
        if task == IMPORTANCE:
            axes.axhline(1 / NUM_CANDIDATES, color=GREY, linestyle=":", zorder=0)
            axes.text(spreads[0], 0.19, label("chance: 1 of 4"), color=GREY, fontsize=9)
        axes.set_ylim(0, 1.08)
        style_axes(axes, title=heading, x="spread of the logarithm of the lengths", y="share of right answers")
