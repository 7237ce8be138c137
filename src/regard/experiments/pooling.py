"""Attention pooling: a kernel beats the average, and a learned kernel beats a fixed one.

    f(x) = sum_i softmax_i(-1/2 ((x - x_i) w)^2) y_i

Average pooling is w = 0, the fixed kernel w = 1. How does gradient descent apply to w? Each training point is predicted
from all others but itself; with itself among them, w would grow without end and the fit be a table of the data.
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
from regard.experiments.lib.drawing import (
    BLACK,
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    dress,
    line,
    logarithmic,
    name_at,
    panels,
)
from regard.experiments.lib.finding import Cell, Finding, Measured, Row, clearly_above, digits, slope
from regard.experiments.lib.small_transformer import seeded

CLAIM = (
    "A kernel that attends to near points beats the average of all, a learned width beats a fixed one, "
    "and with enough data kernel regression converges to the truth, if its bandwidth shrinks meanwhile."
)
HIGHEST, SMALLEST_WIDTH = 5.0, 1e-3
COLUMNS = ("pooling", "points", "bandwidth", "error")
Curve = Callable[[Float[Tensor, "*N"]], Float[Tensor, "*N"]]


def sine_and_power(x: Float[Tensor, "*N"]) -> Float[Tensor, "*N"]:
    """2 sin x + x^0.8."""
    return 2 * x.sin() + x**0.8


@dataclass(frozen=True)
class Sample:
    """Noisy points of a curve."""

    x: Float[Tensor, "N 1"]
    y: Float[Tensor, "N 1"]

    @classmethod
    def draw(cls, truth: Curve, points: int, noise: float) -> "Sample":
        """Points anywhere between 0 and 5."""
        x = (torch.rand(points, 1) * HIGHEST).sort(dim=0).values
        return cls(x, truth(x) + noise * torch.randn(points, 1))


def predict(sample: Sample, at: Float[Tensor, "Q 1"], width: float) -> Float[Tensor, "Q 1"]:
    """Attention from the places asked to the points of the sample, read as their y."""
    score = Gaussian(width=width).requires_grad_(False)
    return attend(at, sample.x, sample.y, score=score).context


def learn_width(sample: Sample, *, steps: int) -> float:
    """Gradient descent on w, each point predicted from the others."""
    score, others = Gaussian(width=1.0), ~torch.eye(len(sample.x), dtype=torch.bool)
    optimizer = torch.optim.Adam(score.parameters(), lr=0.1)
    for _ in range(steps):
        optimizer.zero_grad()
        read = attend(sample.x, sample.x, sample.y, score=score, mask=others)
        F.mse_loss(read.context, sample.y).backward()
        optimizer.step()
    return abs(score.width.item())


def error(sample: Sample, truth: Curve, width: float) -> float:
    """Root mean square distance from the noise-free curve."""
    at = torch.linspace(0, HIGHEST, 101)[:, None]
    return F.mse_loss(predict(sample, at, width), truth(at)).sqrt().item()


@dataclass(frozen=True, kw_only=True)
class Growth:
    """Errors as the samples grow, with a bandwidth that stays 1 and one that shrinks."""

    sizes: list[int]
    bandwidths: list[float]
    fixed: list[Measured]
    shrinking: list[Measured]

    @classmethod
    def of(cls, grown: list[list[Sample]], truth: Curve, widths: list[float]) -> "Growth":
        """Errors of every group of samples, at w = 1 and at the group's own w."""
        pairs = list(zip(grown, widths, strict=True))
        return cls(
            sizes=[len(group[0].x) for group in grown],
            bandwidths=[1 / width for width in widths],
            fixed=[Measured.of(error(one, truth, 1.0) for one in group) for group in grown],
            shrinking=[Measured.of(error(one, truth, width) for one in group) for group, width in pairs],
        )

    def rows(self) -> list[Row]:
        """The table's second part: more and more points."""
        stays = [("bandwidth stays", size, 1.0, value) for size, value in zip(self.sizes, self.fixed, strict=True)]
        changing = zip(self.sizes, self.bandwidths, self.shrinking, strict=True)
        shrinks = [("bandwidth shrinks", size, bandwidth, value) for size, bandwidth, value in changing]
        return [dict(zip(COLUMNS, cells, strict=True)) for cells in stays + shrinks]


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
    """Compare the three widths on `repeats` samples, then let samples grow with and without a shrinking bandwidth."""
    with seeded(seed):
        samples = [Sample.draw(truth, points, noise) for _ in range(repeats)]
        learned = [learn_width(sample, steps=steps) for sample in samples]
        # samples that grow repeat less: the larger they are, the less chance there is in them
        grown = [[Sample.draw(truth, size, noise) for _ in range(max(repeats // 4, 2))] for size in sizes]
        # the learned bandwidth, 1 / w, may be endless where there is nothing to learn
        learned = [max(width, SMALLEST_WIDTH) for width in learned]
        errors = {
            "average": [error(sample, truth, 0.0) for sample in samples],
            "fixed kernel": [error(sample, truth, 1.0) for sample in samples],
            "learned kernel": [error(sample, truth, width) for sample, width in zip(samples, learned, strict=True)],
        }
        widths = [statistics.fmean(learned) * (size / points) ** 0.2 for size in sizes]
        growth = Growth.of(grown, truth, widths)
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
    """The table's first part: the three forms."""
    bandwidths: tuple[Cell, ...] = ("all", 1.0, learned)
    return [
        dict(zip(COLUMNS, (name, points, bandwidth, Measured.of(values)), strict=True))
        for (name, values), bandwidth in zip(errors.items(), bandwidths, strict=True)
    ]


def judge(errors: dict[str, list[float]], growth: Growth) -> tuple[bool, str]:
    """Whether the order is more than chance, and which of the two bandwidths converges."""
    average, fixed, learned = errors.values()
    kernel_wins, learned_wins = clearly_above(average, fixed), clearly_above(fixed, learned)
    stays, falls = (
        slope(growth.sizes, [value.mean for value in values]) for values in (growth.fixed, growth.shrinking)
    )
    converges = stays > -0.05 and falls < -0.15
    said = (
        f"Errors: average {Measured.of(average)}, fixed kernel {Measured.of(fixed)}, learned kernel "
        f"{Measured.of(learned)}. A kernel {'beats' if kernel_wins else 'does not clearly beat'} the average, and "
        f"learning its width {'helps' if learned_wins else 'does not clearly help'}. From {growth.sizes[0]} to "
        f"{growth.sizes[-1]} points the error goes from {digits(growth.fixed[0].mean)} to "
        f"{digits(growth.fixed[-1].mean)} if the bandwidth stays (as n^{stays:.2f}), and from "
        f"{digits(growth.shrinking[0].mean)} to {digits(growth.shrinking[-1].mean)} if it shrinks as n^-0.2 "
        f"(as n^{falls:.2f}): "
    )
    said += "enough data suffice only with a bandwidth that shrinks." if converges else "that is not convergence by it."
    return kernel_wins and learned_wins and converges, said


def draw_figure(figure: Any, *, sample: Sample, width: float, truth: Curve, growth: Growth) -> None:
    """One sample with its three fits, and the error as samples grow."""
    left, right = panels(figure, CLAIM, 2)
    at = torch.linspace(0, HIGHEST, 201)[:, None]
    left.scatter(sample.x, sample.y, s=14, color=GREY, alpha=0.7, linewidths=0)
    for name, curve, colour in (
        ("truth", truth(at), BLACK),
        ("average", predict(sample, at, 0.0), PURPLE),
        ("fixed kernel", predict(sample, at, 1.0), ORANGE),
        ("learned kernel", predict(sample, at, width), BLUE),
    ):
        left.plot(at, curve, color=colour, linestyle="--" if name == "truth" else "-", label=name)
    # the curves meet too often for names beside them
    left.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="upper right")
    dress(left, title=f"One sample of {len(sample.x)} points (dots)", x="x", y="y")
    for values, name, colour in (
        (growth.fixed, "bandwidth stays 1", ORANGE),
        (growth.shrinking, "bandwidth shrinks as $n^{-1/5}$", GREEN),
    ):
        line(right, growth.sizes, values, colour)
        middle = len(growth.sizes) // 2
        name_at(right, growth.sizes[middle], values[middle].mean, name, colour, side="right above")
    logarithmic(right, x=growth.sizes, y=True)
    dress(right, title="Error as the sample grows (bars: spread)", x="points n", y="root mean square error")
