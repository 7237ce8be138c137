"""Why attention divides by sqrt(d): the dot product's variance is d, and softmax of large scores stops learning.

    Var(q . k) = d,   Var(q . k / sqrt(d)) = 1      for independent entries of mean 0 and variance 1

Vaswani et al. 2017, section 3.2.1. https://arxiv.org/abs/1706.03762
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention.alignments import Softmax
from regard.attention.scores import Dot, ScaledDot
from regard.contracts import Score, Title
from regard.experiments.lib.drawing import BLUE, GREY, ORANGE, label_point, line, logarithmic, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row, digits
from regard.experiments.lib.small_transformer import seeded

TITLE = Title(en="Why divide by √d", zh="为什么分数要除以 √d")
CLAIM = Title(
    en=(
        "The dot product of d unit-variance entries has variance d; softmax of it saturates and its gradient "
        "vanishes as d grows, and dividing by sqrt(d) prevents both."
    ),
    zh="各分量方差为 1 时，d 维点积的方差为 d；d 增大时 softmax 饱和，梯度消失；除以 √d 可以避免这两点。",
)


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """Statistics of one score at one size."""

    variance: Measured
    largest: Measured
    entropy: Measured
    gradient: Measured

    def row(self, size: int, name: str) -> Row:
        return {
            "size d": size,
            "score": name,
            "variance": self.variance,
            "largest weight": self.largest,
            "entropy": self.entropy,
            "gradient": self.gradient,
        }


def entropy_of(weights: Float[Tensor, "*B K"]) -> Float[Tensor, "*B"]:
    """In nats; 0 if one key has all the weight."""
    return torch.special.entr(weights).sum(dim=-1)


def observe(score: Score, size: int, *, num_queries: int, num_keys: int) -> tuple[float, float, float, float]:
    """Variance of the scores, and the medians over queries of largest weight, entropy and gradient norm.

    The gradient is that of a random linear function of the weights with respect to the scores.
    """
    # independent standard normal entries, as the claim assumes
    queries, keys = torch.randn(num_queries, size), torch.randn(num_keys, size)
    scores = score(queries, score.prepare(keys)).detach().requires_grad_()
    # scores are leaves of the graph here, so that the gradient is taken with respect to them
    weights = Softmax()(scores).weights
    # a random direction, so that no single weight determines the norm
    (gradient,) = torch.autograd.grad((weights * torch.randn_like(weights)).sum(), scores)
    return (
        scores.var().item(),
        # medians: a few saturated queries dominate a mean
        weights.amax(dim=-1).median().item(),
        entropy_of(weights).median().item(),
        gradient.norm(dim=-1).median().item(),
    )


def run(
    *,
    seed: int = 0,
    sizes: Sequence[int] = (4, 16, 64, 256, 1024),
    repeats: int = 5,
    num_queries: int = 256,
    num_keys: int = 64,
    unscaled: Score | None = None,
    scaled: Score | None = None,
) -> Finding:
    """Measure both scores at each size."""
    scores = {"dot": unscaled or Dot(), "scaled dot": scaled or ScaledDot()}
    behaviours: dict[str, list[Behaviour]] = {name: [] for name in scores}
    with seeded(seed):
        for size in sizes:
            for name, score in scores.items():
                runs = [observe(score, size, num_queries=num_queries, num_keys=num_keys) for _ in range(repeats)]
                # columns of the runs: one list per statistic
                variance, largest, entropy, gradient = (Measured.of(values) for values in zip(*runs, strict=True))
                behaviour = Behaviour(variance=variance, largest=largest, entropy=entropy, gradient=gradient)
                behaviours[name].append(behaviour)
    rows = [behaviours[name][index].row(size, name) for index, size in enumerate(sizes) for name in behaviours]
    holds, verdict = judge(behaviours["dot"], behaviours["scaled dot"], sizes)
    draw = partial(draw_figure, behaviours=behaviours, sizes=sizes)
    return Finding(name="scaling", claim=CLAIM, rows=tuple(rows), verdict=verdict, holds=holds, draw=draw)


def judge(unscaled: list[Behaviour], scaled: list[Behaviour], sizes: Sequence[int]) -> tuple[bool, Title]:
    """Variance within a tenth of d, saturation without the scale, none with it."""
    ratios = [behaviour.variance.mean / size for behaviour, size in zip(unscaled, sizes, strict=True)]
    as_claimed = all(0.9 < ratio < 1.1 for ratio in ratios)
    first, last = unscaled[0], unscaled[-1]
    gradient_ratio = last.gradient.mean / first.gradient.mean
    # all three signs of saturation together, as each of them alone may have another cause
    saturates = last.largest.mean > 0.9 and last.entropy.mean < 0.1 * first.entropy.mean and gradient_ratio < 0.1
    scaled_gradient_ratio = scaled[-1].gradient.mean / scaled[0].gradient.mean
    scaled_entropy_ratio = scaled[-1].entropy.mean / scaled[0].entropy.mean
    survives = 0.5 < scaled_gradient_ratio < 2 and 0.5 < scaled_entropy_ratio < 2
    english = (
        f"Var(q.k) / d lies between {min(ratios):.2f} and {max(ratios):.2f}, "
        f"{'as' if as_claimed else 'not as'} claimed. "
        f"From d = {sizes[0]} to {sizes[-1]} the unscaled softmax {'saturates' if saturates else 'does not saturate'}: "
        f"largest weight {first.largest.mean:.2f} to {last.largest.mean:.2f}, entropy {digits(first.entropy.mean)} to "
        f"{digits(last.entropy.mean)} nats, gradient times {digits(gradient_ratio)}. Divided by sqrt(d) it "
        f"{'does not' if survives else 'is not stable either'}: entropy {digits(scaled[0].entropy.mean)} to "
        f"{digits(scaled[-1].entropy.mean)} nats, gradient times {digits(scaled_gradient_ratio)}."
    )
    chinese = (
        f"Var(q.k) / d 介于 {min(ratios):.2f} 与 {max(ratios):.2f} 之间，与说法{'一致' if as_claimed else '不一致'}。"
        f"d 从 {sizes[0]} 增大到 {sizes[-1]}，不缩放的 softmax {'会' if saturates else '不会'}饱和：最大权重由 "
        f"{first.largest.mean:.2f} 变为 {last.largest.mean:.2f}，熵由 {digits(first.entropy.mean)} 变为 "
        f"{digits(last.entropy.mean)} 纳特，梯度变为 {digits(gradient_ratio)} 倍。除以 √d 之后"
        f"{'不会饱和' if survives else '也不稳定'}：熵由 {digits(scaled[0].entropy.mean)} 变为 "
        f"{digits(scaled[-1].entropy.mean)} 纳特，梯度变为 {digits(scaled_gradient_ratio)} 倍。"
    )
    return as_claimed and saturates and survives, Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, behaviours: dict[str, list[Behaviour]], sizes: Sequence[int]) -> None:
    """Variance, entropy and gradient by size."""
    middle = len(sizes) // 2
    colours = dict(zip(behaviours, (ORANGE, BLUE), strict=True))
    titles = (
        ("variance", "Variance of the scores", "variance"),
        ("entropy", "Entropy of the weights", "entropy (nats)"),
        ("gradient", "Gradient at the scores", "norm of the gradient"),
    )
    for axes, (field, title, unit) in zip(panels(figure, CLAIM, 3), titles, strict=True):
        if field == "variance":
            axes.plot(sizes, sizes, color=GREY, linestyle=":", zorder=0)
            label_point(axes, sizes[middle], sizes[middle], "variance = d", GREY, side="left above")
        for name, by_size in behaviours.items():
            values = [getattr(behaviour, field) for behaviour in by_size]
            line(axes, sizes, values, colours[name])
            # labels are placed where they do not cross the curve
            falls = values[-1].mean < values[0].mean
            side = "above" if name != "dot" else "right above" if falls else "right below"
            index = middle if name != "dot" else -2
            label_point(axes, sizes[index], values[index].mean, name, colours[name], side=side)
        logarithmic(axes, x=sizes, y=field != "entropy")
        style_axes(axes, title=title, x="size d of queries and keys", y=unit)
