"""Attention pooling: a kernel beats the average, and a learned kernel beats a fixed one.

    f(x) = sum_i softmax_i(-1/2 ((x - x_i) w)^2) y_i

Average pooling is w = 0, the fixed kernel w = 1. To learn w by gradient descent, each training point is predicted from
all others (leave-one-out); with itself among them, w would grow without bound and the fit would be a lookup table.
Nadaraya 1964. https://doi.org/10.1137/1109020
"""

import statistics
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.scores import Gaussian
from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    label_point,
    line,
    logarithmic,
    panels,
    style_axes,
)
from regard.experiments.lib.finding import Cell, Finding, Measured, Row, clearly_above, digits, slope
from regard.experiments.lib.small_transformer import seeded

TITLE = Title(en="Average, fixed kernel and learned kernel", zh="平均汇聚、固定核与可学习的核")
CLAIM = Title(
    en=(
        "A kernel that attends to near points beats the average of all, a learned width beats a fixed one, "
        "and with enough data kernel regression converges to the truth, if its bandwidth shrinks."
    ),
    zh=(
        "关注近处各点的核优于全体平均，学习得到的宽度优于固定宽度；样本足够多时，核回归收敛到真实曲线，"
        "前提是带宽随之缩小。"
    ),
)
MAX_X, MIN_WIDTH = 5.0, 1e-3
COLUMNS = ("pooling", "points", "bandwidth", "error")
Curve = Callable[[Float[Tensor, "*N"]], Float[Tensor, "*N"]]


def sine_and_power(x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """2 sin x + x^0.8."""
    return 2 * x.sin() + x**0.8


@dataclass(frozen=True)
class CurveSample:
    """Noisy points of a curve."""

    x: Float[Tensor, "N 1"]
    y: Float[Tensor, "N 1"]

    @classmethod
    def draw(cls, truth: Curve, points: int, noise: float) -> "CurveSample":
        """Points at random x between 0 and 5."""
        x = (torch.rand(points, 1) * MAX_X).sort(dim=0).values
        return cls(x, truth(x) + noise * torch.randn(points, 1))


def predict(sample: CurveSample, x: Float[Tensor, "Q 1"], width: float) -> Float[Tensor, "Q 1"]:
    """Attention from the queries x to the points of the sample, whose y are the values."""
    # a fixed width needs no gradient, which would store the (Q, N) weights
    score = Gaussian(width=width).requires_grad_(False)
    return attend(x, sample.x, sample.y, score=score).context


def learn_width(sample: CurveSample, *, steps: int) -> float:
    """Gradient descent on w with the leave-one-out error."""
    # without the diagonal every point is predicted from the others only
    score, others = Gaussian(width=1.0), ~torch.eye(len(sample.x), dtype=torch.bool)
    optimizer = torch.optim.Adam(score.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        attended = attend(sample.x, sample.x, sample.y, score=score, mask=others)
        F.mse_loss(attended.context, sample.y).backward()
        optimizer.step()
    # the score is even in w, so its sign has no meaning
    return abs(score.width.item())


def error(sample: CurveSample, truth: Curve, width: float) -> float:
    """Root mean square distance from the noise-free curve."""
    # a regular grid: the error is an average over x, not over the distribution of the samples
    x = torch.linspace(0, MAX_X, 101)[:, None]
    return F.mse_loss(predict(sample, x, width), truth(x)).sqrt().item()


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Errors by sample size, with a bandwidth of 1 and with one that shrinks."""

    sizes: list[int]
    bandwidths: list[float]
    fixed: list[Measured]
    shrinking: list[Measured]

    @classmethod
    def of(cls, groups: list[list[CurveSample]], truth: Curve, widths: list[float]) -> "Growth":
        """Errors of every group of samples, at w = 1 and at the w of the group."""
        pairs = list(zip(groups, widths, strict=True))
        return cls(
            sizes=[len(group[0].x) for group in groups],
            bandwidths=[1 / width for width in widths],
            fixed=[Measured.of(error(sample, truth, 1.0) for sample in group) for group in groups],
            shrinking=[Measured.of(error(sample, truth, width) for sample in group) for group, width in pairs],
        )

    def rows(self) -> list[Row]:
        """The second part of the table: growing samples."""
        fixed = [("bandwidth stays", size, 1.0, value) for size, value in zip(self.sizes, self.fixed, strict=True)]
        triples = zip(self.sizes, self.bandwidths, self.shrinking, strict=True)
        shrinking = [("bandwidth shrinks", size, bandwidth, value) for size, bandwidth, value in triples]
        return [dict(zip(COLUMNS, cells, strict=True)) for cells in fixed + shrinking]


def run(
    *,
    seed: int = 0,
    repeats: int = 20,
    points: int = 50,
    noise: float = 0.5,
    truth: Curve = sine_and_power,
    steps: int = 150,
    sizes: Sequence[int] = (50, 200, 800, 3200, 12800),
) -> Finding:
    """Compare the three widths on `repeats` samples, then growing samples with and without a shrinking bandwidth."""
    with seeded(seed):
        samples = [CurveSample.draw(truth, points, noise) for _ in range(repeats)]
        learned = [learn_width(sample, steps=steps) for sample in samples]
        # fewer repetitions: large samples vary less
        groups = [[CurveSample.draw(truth, size, noise) for _ in range(max(repeats // 4, 2))] for size in sizes]
        # the bandwidth 1 / w may be infinite where there is nothing to learn
        learned = [max(width, MIN_WIDTH) for width in learned]
        errors = {
            "average": [error(sample, truth, 0.0) for sample in samples],
            "fixed kernel": [error(sample, truth, 1.0) for sample in samples],
            "learned kernel": [error(sample, truth, width) for sample, width in zip(samples, learned, strict=True)],
        }
        # the optimal bandwidth in one dimension shrinks as n^(-1/5), so w grows as n^(1/5)
        widths = [statistics.fmean(learned) * (size / points) ** 0.2 for size in sizes]
        growth = Growth.of(groups, truth, widths)
    bandwidth = Measured.of(1 / width for width in learned)
    holds, verdict = judge(errors, growth)
    return Finding(
        name="pooling",
        claim=CLAIM,
        rows=(*order_rows(errors, points, bandwidth), *growth.rows()),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, sample=samples[0], width=learned[0], truth=truth, growth=growth),
    )


def order_rows(errors: dict[str, list[float]], points: int, learned: Measured) -> list[Row]:
    """The first part of the table: the three forms of pooling."""
    bandwidths: tuple[Cell, ...] = ("all", 1.0, learned)
    return [
        dict(zip(COLUMNS, (name, points, bandwidth, Measured.of(values)), strict=True))
        for (name, values), bandwidth in zip(errors.items(), bandwidths, strict=True)
    ]


def judge(errors: dict[str, list[float]], growth: Growth) -> tuple[bool, Title]:
    """True if the order is significant and only the shrinking bandwidth converges."""
    average, fixed, learned = errors.values()
    kernel_wins, learned_wins = clearly_above(average, fixed), clearly_above(fixed, learned)
    stays, falls = (
        slope(growth.sizes, [value.mean for value in values]) for values in (growth.fixed, growth.shrinking)
    )
    # an exponent near 0 is no convergence; the optimal rate is -0.4
    converges = stays > -0.05 and falls < -0.15
    english = (
        f"Errors: average {Measured.of(average)}, fixed kernel {Measured.of(fixed)}, learned kernel "
        f"{Measured.of(learned)}. A kernel {'beats' if kernel_wins else 'does not clearly beat'} the average, and "
        f"learning its width {'helps' if learned_wins else 'does not clearly help'}. From {growth.sizes[0]} to "
        f"{growth.sizes[-1]} points the error goes from {digits(growth.fixed[0].mean)} to "
        f"{digits(growth.fixed[-1].mean)} if the bandwidth stays (as n^{stays:.2f}), and from "
        f"{digits(growth.shrinking[0].mean)} to {digits(growth.shrinking[-1].mean)} if it shrinks as n^-0.2 "
        f"(as n^{falls:.2f}): "
    )
    english += "enough data suffice only with a bandwidth that shrinks." if converges else "the claim does not follow."
    chinese = (
        f"误差：平均汇聚 {Measured.of(average)}，固定核 {Measured.of(fixed)}，可学习的核 {Measured.of(learned)}。"
        f"核{'优于' if kernel_wins else '并不明显优于'}平均汇聚，"
        f"学习宽度{'有帮助' if learned_wins else '没有明显帮助'}。"
        f"样本从 {growth.sizes[0]} 个增加到 {growth.sizes[-1]} 个，带宽不变时误差由 "
        f"{digits(growth.fixed[0].mean)} 变为 {digits(growth.fixed[-1].mean)}（按 n^{stays:.2f}），"
        f"带宽按 n^-0.2 缩小时由 {digits(growth.shrinking[0].mean)} 变为 "
        f"{digits(growth.shrinking[-1].mean)}（按 n^{falls:.2f}）："
    )
    chinese += "只有带宽随之缩小，增加数据才有用。" if converges else "由此得不出这个说法。"
    return kernel_wins and learned_wins and converges, Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, sample: CurveSample, width: float, truth: Curve, growth: Growth) -> None:
    """One sample with its three fits, and the error by sample size."""
    left, right = panels(figure, CLAIM, 2)
    x = torch.linspace(0, MAX_X, 201)[:, None]
    left.scatter(sample.x, sample.y, s=14, color=GREY, alpha=0.7, linewidths=0)
    for name, curve, colour in (
        ("truth", truth(x), BLACK),
        ("average", predict(sample, x, 0.0), PURPLE),
        ("fixed kernel", predict(sample, x, 1.0), ORANGE),
        ("learned kernel", predict(sample, x, width), BLUE),
    ):
        left.plot(x, curve, color=colour, linestyle="--" if name == "truth" else "-", label=label(name))
    # the curves cross too often to label them directly
    left.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="upper right")
    style_axes(left, title=label("One sample of {} points (dots)").format(len(sample.x)), x="x", y="y")
    for values, name, colour in (
        (growth.fixed, "bandwidth stays 1", ORANGE),
        (growth.shrinking, "bandwidth shrinks as $n^{-1/5}$", GREEN),
    ):
        line(right, growth.sizes, values, colour)
        middle = len(growth.sizes) // 2
        label_point(right, growth.sizes[middle], values[middle].mean, name, colour, side="right above")
    logarithmic(right, x=growth.sizes, y=True)
    style_axes(right, title="Error by sample size (bars: spread)", x="points n", y="root mean square error")
