"""The oldest attention: a curve through noisy points, by the mean of near ones."""

from collections.abc import Mapping

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.attention import attend
from regard.attention.scores import Gaussian
from regard.experiments import HIGHEST, Sample, predict, sine_and_power
from regard.studio.lessons.blocks import (
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
from regard.studio.schema.pages import Block, ChartBlock

POINTS, NOISE = 50, 0.5
ASKED = (0.0, 1.0, 4.0, 50.0)
"""Widths of the question: the average, the plain kernel, a narrower one, nearly the nearest point alone."""

CONTROLS = (
    control("width", both("Width parameter w", "宽度参数 w"), low=0.0, high=20.0, step=0.1, value=1.0),
    control("seed", both("Draw of the noise", "噪声的随机种子"), low=0.0, high=99.0, step=1.0, value=0.0),
)


OPENING: tuple[Block, ...] = (
    text(
        f"{POINTS} points of $y = 2 \\sin x + x^{{0.8}}$ with noise of deviation {NOISE}. What is $y$ at a new $x$? "
        "Nadaraya and Watson said in 1964: a mean of the known $y$, the near ones counting most. The new $x$ is the "
        "query, the known $x_i$ are keys, the known $y_i$ values.",
        f"在 $y = 2 \\sin x + x^{{0.8}}$ 上取 {POINTS} 个点，加上标准差为 {NOISE} 的噪声。给一个新的 $x$，$y$ 是多少？"
        "Nadaraya 与 Watson 在 1964 年的回答是：取已知 $y$ 的加权平均，越近的点权重越大。"
        "新的 $x$ 是查询，已知的 $x_i$ 是键，已知的 $y_i$ 是值。",
    ),
    formula(r"f(x) = \sum_i \mathrm{softmax}_i\left(-\tfrac{1}{2}\,((x - x_i)\,w)^2\right) y_i"),
)


def build(settings: Mapping[str, float]) -> list[Block]:
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


def closest(sample: Sample) -> Block:
    """Which width comes closest to the truth?"""
    errors = [error(sample, one) for one in ASKED]
    told = ", ".join(f"{number(one, 3)} (w = {asked:g})" for one, asked in zip(errors, ASKED, strict=True))
    return question(
        both("Which of these comes closest to the true curve?", "下面哪一个最接近真实曲线？"),
        [same(f"w = {one:g}") for one in ASKED],
        errors.index(min(errors)),
        both(
            f"Errors: {told}. Too wide blurs the curve, too narrow repeats the noise.",
            f"误差依次为 {told}。太宽会抹平曲线，太窄则会照搬噪声。",
        ),
    )


def draw(seed: int) -> Sample:
    """Noisy points of the seed's curve."""
    generator = make_generator(seed)
    x = (torch.rand(POINTS, 1, generator=generator) * HIGHEST).sort(dim=0).values
    return Sample(x, sine_and_power(x) + NOISE * torch.randn(POINTS, 1, generator=generator))


def error(sample: Sample, width: float) -> float:
    """Mean squared distance from the noise-free curve."""
    at = torch.linspace(0, HIGHEST, 101)[:, None]
    return F.mse_loss(predict(sample, at, width), sine_and_power(at)).item()


def fit(sample: Sample, width: float) -> ChartBlock:
    """One sample, the truth, the average and the fit."""
    at = torch.linspace(0, HIGHEST, 101)
    curves = (
        (both("truth", "真实曲线"), sine_and_power(at)),
        (both("average", "平均汇聚"), predict(sample, at[:, None], 0.0)[:, 0]),
        (both(f"fit, w = {width:g}", f"拟合，w = {width:g}"), predict(sample, at[:, None], width)[:, 0]),
    )
    return chart(
        both("Data, truth and fit", "数据、真实曲线与拟合"),
        same("x"),
        same("y"),
        series(both("data", "数据"), sample.x[:, 0], sample.y[:, 0], points=True),
        *(series(label, at, y, points=False) for label, y in curves),
    )


def own_errors(sample: Sample, widths: Float[Tensor, " W"], *, left_out: bool) -> Float[Tensor, " W"]:
    """How far each width is off on the sample's own points, each point read or left out when it is predicted."""
    mask = ~torch.eye(POINTS, dtype=torch.bool) if left_out else None
    x = sample.x * widths[:, None, None]
    read = attend(x, x, sample.y.expand(len(widths), -1, -1), score=Gaussian(), mask=mask)
    return (read.context - sample.y).square().mean(dim=(-2, -1))


def learning(sample: Sample) -> list[Block]:
    """What to descend on: with itself among the keys every point wants the narrowest kernel."""
    widths = torch.linspace(0, 20, 41)
    with_itself, without = (own_errors(sample, widths, left_out=left_out) for left_out in (False, True))
    best, narrowest = widths[without.argmin()].item(), widths[with_itself.argmin()].item()
    return [
        chart(
            both("Error on the points themselves", "在样本点自身上的误差"),
            same("w"),
            both("mean squared error", "均方误差"),
            series(both("may read itself", "可以读到自己"), widths, with_itself, points=False),
            series(both("itself left out", "不读自己（留一法）"), widths, without, points=False),
        ),
        text(
            "How does gradient descent find $w$? Predict each point from all others but itself, and follow the "
            f"gradient of that error: here it is least at $w = {best:g}$. If a point may read itself, the best it can "
            f"do is to read nothing else: that error is least at $w = {narrowest:g}$, the end of this axis, and the "
            "fit would be a table of the data.",
            "如何用梯度下降学习 $w$？用其余所有点（不含自己）预测每个点，沿这个误差的梯度下降：这里在 "
            f"$w = {best:g}$ 处最小。如果允许读到自己，最好的办法就是只读自己：误差在坐标轴尽头 "
            f"$w = {narrowest:g}$ 处最小，拟合就成了一张查找表。",
        ),
    ]
