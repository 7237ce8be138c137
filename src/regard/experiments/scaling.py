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
from regard.contracts import Score
from regard.experiments.lib.drawing import BLUE, GREY, ORANGE, dress, line, logarithmic, name_at, panels
from regard.experiments.lib.finding import Finding, Measured, Row, digits
from regard.experiments.lib.small_transformer import seeded

CLAIM = (
    "The dot product of d unit-variance entries has variance d; softmax of it saturates and its gradient vanishes as d "
    "grows, and dividing by sqrt(d) prevents both."
)


@dataclass(frozen=True, kw_only=True)
class Behaviour:
    """What one score does at one size."""

    variance: Measured
    largest: Measured
    entropy: Measured
    gradient: Measured

    def row(self, size: int, name: str) -> Row:
        """As the table shows it."""
        return {
            "size d": size,
            "score": name,
            "variance": self.variance,
            "largest weight": self.largest,
            "entropy": self.entropy,
            "gradient": self.gradient,
        }


def entropy_of(weights: Float[Tensor, "*B K"]) -> Float[Tensor, "*B"]:
    """In nats; 0 where one key has everything."""
    return torch.special.entr(weights).sum(dim=-1)


def observe(score: Score, size: int, *, num_queries: int, num_keys: int) -> tuple[float, float, float, float]:
    """Variance of the scores, and the typical query's largest weight, entropy and gradient.

    The gradient is that of a random sum of the weights with respect to the scores: how far a step can still move them.
    """
    queries, keys = torch.randn(num_queries, size), torch.randn(num_keys, size)
    scores = score(queries, score.prepare(keys)).detach().requires_grad_()
    weights = Softmax()(scores).weights
    (gradient,) = torch.autograd.grad((weights * torch.randn_like(weights)).sum(), scores)
    return (
        scores.var().item(),
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
    """Watch both scores as vectors grow."""
    scores = {"dot": unscaled or Dot(), "scaled dot": scaled or ScaledDot()}
    seen: dict[str, list[Behaviour]] = {name: [] for name in scores}
    with seeded(seed):
        for size in sizes:
            for name, score in scores.items():
                runs = [observe(score, size, num_queries=num_queries, num_keys=num_keys) for _ in range(repeats)]
                variance, largest, entropy, gradient = (Measured.of(values) for values in zip(*runs, strict=True))
                behaviour = Behaviour(variance=variance, largest=largest, entropy=entropy, gradient=gradient)
                seen[name].append(behaviour)
    rows = [seen[name][place].row(size, name) for place, size in enumerate(sizes) for name in seen]
    holds, verdict = judge(seen["dot"], seen["scaled dot"], sizes)
    draw = partial(draw_figure, seen=seen, sizes=sizes)
    return Finding(name="scaling", claim=CLAIM, rows=tuple(rows), verdict=verdict, holds=holds, draw=draw)


def judge(unscaled: list[Behaviour], scaled: list[Behaviour], sizes: Sequence[int]) -> tuple[bool, str]:
    """Variance within a tenth of d, saturation without the scale, none with it."""
    ratios = [one.variance.mean / size for one, size in zip(unscaled, sizes, strict=True)]
    as_said = all(0.9 < ratio < 1.1 for ratio in ratios)
    first, last = unscaled[0], unscaled[-1]
    lost = last.gradient.mean / first.gradient.mean
    saturates = last.largest.mean > 0.9 and last.entropy.mean < 0.1 * first.entropy.mean and lost < 0.1
    kept = scaled[-1].gradient.mean / scaled[0].gradient.mean
    entropy_kept = scaled[-1].entropy.mean / scaled[0].entropy.mean
    survives = 0.5 < kept < 2 and 0.5 < entropy_kept < 2
    said = (
        f"Var(q.k) / d lies between {min(ratios):.2f} and {max(ratios):.2f}, {'as' if as_said else 'not as'} claimed. "
        f"From d = {sizes[0]} to {sizes[-1]} the unscaled softmax {'saturates' if saturates else 'does not saturate'}: "
        f"largest weight {first.largest.mean:.2f} to {last.largest.mean:.2f}, entropy {digits(first.entropy.mean)} to "
        f"{digits(last.entropy.mean)} nats, gradient times {digits(lost)}. Divided by sqrt(d) it "
        f"{'does not' if survives else 'does not keep still'}: entropy {digits(scaled[0].entropy.mean)} to "
        f"{digits(scaled[-1].entropy.mean)} nats, gradient times {digits(kept)}."
    )
    return as_said and saturates and survives, said


def draw_figure(figure: Any, *, seen: dict[str, list[Behaviour]], sizes: Sequence[int]) -> None:
    """Variance, entropy and gradient against size."""
    middle = len(sizes) // 2
    colours = dict(zip(seen, (ORANGE, BLUE), strict=True))
    titles = (
        ("variance", "Variance of the scores", "variance"),
        ("entropy", "Entropy of the weights", "entropy (nats)"),
        ("gradient", "Gradient at the scores", "norm of the gradient"),
    )
    for axes, (field, title, unit) in zip(panels(figure, CLAIM, 3), titles, strict=True):
        if field == "variance":
            axes.plot(sizes, sizes, color=GREY, linestyle=":", zorder=0)
            name_at(axes, sizes[middle], sizes[middle], "variance = d", GREY, side="left above")
        for name, behaviours in seen.items():
            values = [getattr(one, field) for one in behaviours]
            line(axes, sizes, values, colours[name])
            falls = values[-1].mean < values[0].mean
            side = "above" if name != "dot" else "right above" if falls else "right below"
            place = middle if name != "dot" else -2
            name_at(axes, sizes[place], values[place].mean, name, colours[name], side=side)
        logarithmic(axes, x=sizes, y=field != "entropy")
        dress(axes, title=title, x="size d of queries and keys", y=unit)
