"""Dynamic weights: attention computes its weights from the input, a convolution or a linear layer learns fixed ones.

    dynamic   weights = softmax(q k / sqrt(d))    another for every input
    learned   weights = softmax(R)                R_ij a parameter, the same for every input (the Random Synthesizer)
    random    weights = softmax(R)                R_ij random and never trained
    uniform   weights = 1 / L                     the average

Fixed weights: Tay et al. 2020, section 3.2. https://arxiv.org/abs/2005.00743
The claim is that only weights which depend on the input can relate each token to what it needs in this input. Two
questions about the same texts: one whose answer is wherever a certain key is, and one whose answer is at the mirrored
position. Equal numbers of parameters. Refuted if fixed weights answer the first question as well; that dynamic
weights are no better at the second is the other half of the claim, since there nothing depends on the content.
"""

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any, get_args

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, is_above
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.lookup import (
    LookupResult,
    LookupSystem,
    LookupTask,
    MakeAttention,
    Question,
    without_projections,
)

TITLE = Title(en="Dynamic and fixed weights", zh="动态权重与固定权重")
CLAIM = Title(
    en=(
        "Weights that attention computes from the input beat fixed learned ones where the answer depends on the "
        "content; where it depends on the position alone, fixed ones are as good."
    ),
    zh="答案取决于内容时，注意力根据输入算出的权重优于学到的固定权重；答案只取决于位置时，固定权重同样好。",
)
CHINESE = {
    "question": "问题",
    "weights": "权重",
    "accuracy": "准确率",
    "content": "内容",
    "position": "位置",
    "dynamic": "动态",
    "learned": "学到",
    "random": "随机",
    "uniform": "均匀",
    "By content: the value of the requested key": "按内容：所查的键对应的值",
    "By position: the value at the mirrored position": "按位置：镜像位置上的值",
    "share of right answers": "正确率",
    "chance": "随机水平",
}
MARGIN = 0.02
"""A difference in accuracy that does not matter."""

QUESTIONS: tuple[Question, ...] = get_args(Question)


class PositionScores(nn.Module):
    """A score for every pair of positions, whatever the tokens; a parameter, or a constant."""

    def __init__(self, scores: Float[Tensor, "H L L"], *, learned: bool) -> None:
        super().__init__()
        self.scores = nn.Parameter(scores, requires_grad=learned)

    def prepare(self, keys: Float[Tensor, "*B K size"]) -> Float[Tensor, "*B K size"]:
        """The keys, of which only the number matters."""
        return keys

    def forward(self, queries: Float[Tensor, "*B Q size"], keys: Float[Tensor, "*B K size"]) -> Float[Tensor, "*B Q K"]:
        """The same scores for every input."""
        return self.scores.expand(*queries.shape[:-1], keys.shape[-2])

    def lower(self, queries: Tensor, keys: Tensor) -> str:
        """No kernel computes them."""
        return "fixed scores are no function of queries and keys"


def fixed(spread: float, *, learned: bool, length: int) -> MakeAttention:
    """Attention with fixed scores, at first random with this spread; it needs no projections of queries and keys."""

    def make(hidden_size: int, num_heads: int) -> MultiHeadAttention:
        score = PositionScores(spread * torch.randn(num_heads, length, length), learned=learned)
        attention = MultiHeadAttention(hidden_size, num_heads, score=score)
        # the scores ignore both, and parameters without effect must not count
        return without_projections(attention, "query_proj", "key_proj")

    return make


def kinds(length: int) -> dict[str, MakeAttention]:
    """How the weights come about."""
    return {
        "dynamic": MultiHeadAttention,
        "learned": fixed(0.1, learned=True, length=length),
        # a spread at which a few weights of each position are large
        "random": fixed(3.0, learned=False, length=length),
        "uniform": fixed(0.0, learned=False, length=length),
    }


Results = Mapping[tuple[Question, str], Sequence[LookupResult]]
"""By question and kind of weights; one per seed."""


def run(
    *,
    seed: int = 0,
    repeats: int = 3,
    steps: int = 400,
    head_size: int = 8,
    num_heads: int = 4,
    length: int = 8,
    num_values: int = 8,
) -> Finding:
    """Train every kind of weights on both questions; all have about the parameters of the dynamic one."""
    task = LookupTask(length=length, num_values=num_values)
    dynamic = LookupSystem(task=task, make=MultiHeadAttention, num_heads=num_heads, head_size=head_size)
    systems = {name: dynamic.of_equal_size(make) for name, make in kinds(length).items()}
    seeds = range(1000 * seed, 1000 * seed + repeats)
    results = {
        (question, name): [system.train_and_test(one, question, steps=steps) for one in seeds]
        for question in QUESTIONS
        for name, system in systems.items()
    }
    rows: list[Row] = [
        {
            "question": question,
            "weights": name,
            "parameters": runs[0].parameters,
            "accuracy": Measured.of(run.accuracy for run in runs),
        }
        for (question, name), runs in results.items()
    ]
    holds, verdict = judge(results)
    return Finding(
        name="dynamic_weights",
        claim=CLAIM,
        rows=tuple(rows),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, results=results, chance=1 / num_values),
    )


def judge(results: Results) -> tuple[bool | None, Title]:
    """By content dynamic weights are clearly better than learned fixed ones; by position they are not."""
    accuracy = {key: [run.accuracy for run in runs] for key, runs in results.items()}
    measured = {key: str(Measured.of(values)) for key, values in accuracy.items()}
    by_content = is_above(accuracy["content", "dynamic"], accuracy["content", "learned"])
    # as good: clearly not worse by more than the margin
    lowered = [value - MARGIN for value in accuracy["position", "dynamic"]]
    suffices = is_above(accuracy["position", "learned"], lowered)
    words = {True: "clearly better", False: "clearly worse", None: "not clearly different"}
    good = {True: "as good", False: "clearly worse", None: "not clearly as good"}
    parts = [
        f"dynamic {measured[question, 'dynamic']}, fixed {measured[question, 'learned']}, random "
        f"{measured[question, 'random']}, uniform {measured[question, 'uniform']}"
        for question in QUESTIONS
    ]
    english = (
        f"Right answers by content: {parts[0]}; dynamic weights are {words[by_content]} than fixed ones. By position: "
        f"{parts[1]}; fixed weights are {good[suffices]} (within {MARGIN:.2f})."
    )
    good = {True: "同样好", False: "明显更差", None: "不能确定同样好"}
    words = {True: "动态权重明显更好", False: "动态权重明显更差", None: "两者没有明显差别"}
    parts = [
        f"动态权重 {measured[question, 'dynamic']}，学到的固定权重 {measured[question, 'learned']}，"
        f"随机权重 {measured[question, 'random']}，均匀权重 {measured[question, 'uniform']}"
        for question in QUESTIONS
    ]
    chinese = (
        f"按内容的正确率：{parts[0]}；{words[by_content]}。"
        f"按位置的正确率：{parts[1]}；固定权重{good[suffices]}（容差 {MARGIN:.2f}）。"
    )
    return all_of(by_content, suffices), Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, results: Results, chance: float) -> None:
    """A bar for every kind of weights, a panel for each question; dots are seeds."""
    headings = ("By content: the value of the requested key", "By position: the value at the mirrored position")
    names = list(dict.fromkeys(name for _, name in results))
    for axes, question, heading in zip(panels(figure, CLAIM, 2), QUESTIONS, headings, strict=True):
        for place, (name, colour) in enumerate(zip(names, (BLUE, ORANGE, PURPLE, GREEN), strict=True)):
            values = [run.accuracy for run in results[question, name]]
            axes.bar(place, Measured.of(values).mean, color=colour, width=0.6, alpha=0.8)
            axes.plot([place] * len(values), values, "k.", markersize=5)
            axes.text(place, max(values) + 0.03, f"{Measured.of(values).mean:.2f}", ha="center", color=colour)
        axes.axhline(chance, color=GREY, linestyle=":")
        axes.text(len(names) - 0.6, chance, label("chance"), color=GREY, fontsize=9, va="bottom")
        axes.set_xlim(-0.5, len(names) - 0.1)
        axes.set_xticks(range(len(names)), [label(name) for name in names])
        axes.set_ylim(0, 1.12)
        style_axes(axes, title=heading, x="weights", y="share of right answers")
