"""Kernel regression as attention: a curve through noisy points as a weighted mean of near ones."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.scores import Gaussian
from regard.experiments import MAX_X, CurveSample, predict, sine_and_power
from regard.studio.lessons.blocks import (
    LessonEntry,
    both,
    chart,
    control,
    formula,
    make_generator,
    number,
    question,
    same,
    series,
    text,
)
from regard.studio.schema.pages import ChartBlock, LessonBlock

POINTS, NOISE = 50, 0.5
WIDTHS = (0.0, 1.0, 4.0, 50.0)
"""Widths of the question: the average, the plain kernel, a narrower one, almost the nearest neighbour."""

CONTROLS = (
    control("width", both("Width parameter w", "宽度参数 w"), low=0.0, high=20.0, step=0.1, value=1.0),
    control("seed", both("Seed of the noise", "噪声的随机种子"), low=0.0, high=99.0, step=1.0, value=0.0),
)


OPENING: tuple[LessonBlock, ...] = (
    text(
        f"{POINTS} points of $y = 2 \\sin x + x^{{0.8}}$ with noise of deviation {NOISE}. What is $y$ at a new $x$? "
        "Nadaraya and Watson (1964): a weighted mean of the known $y$ with larger weights for near points. The new $x$ "
        "is the query, the known $x_i$ are keys, the known $y_i$ values.",
        f"在 $y = 2 \\sin x + x^{{0.8}}$ 上取 {POINTS} 个点，加上标准差为 {NOISE} 的噪声。给一个新的 $x$，$y$ 是多少？"
        "Nadaraya 与 Watson（1964）：取已知 $y$ 的加权平均，越近的点权重越大。"
        "新的 $x$ 是查询，已知的 $x_i$ 是键，已知的 $y_i$ 是值。",
    ),
    formula(r"f(x) = \sum_i \mathrm{softmax}_i\left(-\tfrac{1}{2}\,((x - x_i)\,w)^2\right) y_i"),
)


def build(settings: Mapping[str, float]) -> list[LessonBlock]:
    """Data, truth and fit; which width is best, and how it can be learned."""
    width, sample = settings["width"], draw(int(settings["seed"]))
    average, fitted = number(error(sample, 0.0), 3), number(error(sample, width), 3)
    return [
        *OPENING,
        fit(sample, width),
        text(
            f"Mean squared error against the true curve: {average} for the average of all points ($w = 0$), {fitted} "
            f"for $w = {width:g}$.",
            f"与真实曲线的均方误差：所有点的平均（$w = 0$）为 {average}，$w = {width:g}$ 为 {fitted}。",
        ),
        closest(sample),
        *learning(sample),
    ]


def closest(sample: CurveSample) -> LessonBlock:
    """Which width comes closest to the truth?"""
    errors = [error(sample, width) for width in WIDTHS]
    listing = ", ".join(f"{number(value, 3)} (w = {width:g})" for value, width in zip(errors, WIDTHS, strict=True))
    return question(
        both("Which of these comes closest to the true curve?", "下面哪一个最接近真实曲线？"),
        [same(f"w = {width:g}") for width in WIDTHS],
        errors.index(min(errors)),
        both(
            f"Errors: {listing}. Too wide a kernel blurs the curve, too narrow a one follows the noise.",
            f"误差依次为 {listing}。核太宽会抹平曲线，太窄则会跟随噪声。",
        ),
    )


def draw(seed: int) -> CurveSample:
    """Noisy points of the curve."""
    generator = make_generator(seed)
    x = (torch.rand(POINTS, 1, generator=generator) * MAX_X).sort(dim=0).values
    return CurveSample(x, sine_and_power(x) + NOISE * torch.randn(POINTS, 1, generator=generator))


def error(sample: CurveSample, width: float) -> float:
    """Mean squared distance from the noise-free curve."""
    # (101, 1): a position is a vector of one number
    x = torch.linspace(0, MAX_X, 101)[:, None]
    return F.mse_loss(predict(sample, x, width), sine_and_power(x)).item()


def fit(sample: CurveSample, width: float) -> ChartBlock:
    """One sample, the truth, the average and the fit."""
    x = torch.linspace(0, MAX_X, 101)
    curves = (
        (both("truth", "真实曲线"), sine_and_power(x)),
        (both("average", "平均汇聚"), predict(sample, x[:, None], 0.0)[:, 0]),
        (both(f"fit, w = {width:g}", f"拟合，w = {width:g}"), predict(sample, x[:, None], width)[:, 0]),
    )
    return chart(
        both("Data, truth and fit", "数据、真实曲线与拟合"),
        same("x"),
        same("y"),
        series(both("data", "数据"), sample.x[:, 0], sample.y[:, 0], points=True),
        *(series(label, x, y, points=False) for label, y in curves),
    )


def training_errors(sample: CurveSample, widths: Float[Tensor, " W"], *, leave_one_out: bool) -> Float[Tensor, " W"]:
    """The error of each width on the points of the sample; with `leave_one_out` from the other points only."""
    # no point may attend to itself
    mask = ~torch.eye(POINTS, dtype=torch.bool) if leave_one_out else None
    # (widths, points, 1): positions times w have the kernel of width parameter w, so one batch has all widths
    x = sample.x * widths[:, None, None]
    attended = attend(x, x, sample.y.expand(len(widths), -1, -1), score=Gaussian(), mask=mask)
    return (attended.context - sample.y).square().mean(dim=(-2, -1))


def learning(sample: CurveSample) -> list[LessonBlock]:
    """Which error to minimise: with itself among the keys, every point is fit best by the narrowest kernel."""
    widths = torch.linspace(0, 20, 41)
    with_itself, without = (
        training_errors(sample, widths, leave_one_out=leave_one_out) for leave_one_out in (False, True)
    )
    best, narrowest = widths[without.argmin()].item(), widths[with_itself.argmin()].item()
    return [
        chart(
            both("Error on the sample points", "在样本点上的误差"),
            same("w"),
            both("mean squared error", "均方误差"),
            series(both("with itself", "包含自己"), widths, with_itself, points=False),
            series(both("leave-one-out", "留一法"), widths, without, points=False),
        ),
        text(
            "How is $w$ learned by gradient descent? Predict each point from all others (leave-one-out) and minimise "
            f"that error: here it is least at $w = {best:g}$. If a point is among its own keys, the error is least "
            f"when all weight is on it: at $w = {narrowest:g}$, the end of this axis, where the fit is a lookup table.",
            "如何用梯度下降学习 $w$？用其余所有点预测每个点（留一法），最小化这个误差：这里在 "
            f"$w = {best:g}$ 处最小。如果键中包含该点自己，全部权重落在自己身上时误差最小：在坐标轴尽头 "
            f"$w = {narrowest:g}$ 处，拟合就成了一张查找表。",
        ),
    ]


LESSON = LessonEntry(
    title=both("Kernel regression", "核回归"),
    summary=both(
        "Attention of 1964: a curve from nearby points. How narrow should the kernel be?",
        "1964 年的注意力：由附近的点得到曲线。核应该多窄？",
    ),
    controls=CONTROLS,
    build=build,
    code=(attend, Gaussian),
    experiment="pooling",
)
