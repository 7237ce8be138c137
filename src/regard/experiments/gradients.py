"""Gradients: how much of the gradient at the last output arrives at an input far back, and at the first layer of many.

The text: in a recurrent network the gradient passes a nonlinear function at every step, so that it vanishes
exponentially with distance, or explodes; attention brings any two positions together at once; residual connections
solve the same problem in depth.

Measured at initialisation: the norm of the gradient of a random projection of the last output with respect to the input
at distance t, divided by that at distance 1, and the norm at the input of stacks of more and more feed-forward layers
with and without residual connections. Refuted if the gradient of the RNN does not fall exponentially, if attention's
does fall, or if a stack without residual connections keeps its gradient, or one with them loses it.

Hochreiter and Schmidhuber 1997. https://doi.org/10.1162/neco.1997.9.8.1735
Residual connections: He et al. 2015. https://arxiv.org/abs/1512.03385
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.contracts import Title
from regard.experiments.lib.chinese import LABELS
from regard.experiments.lib.decision import all_of, exceeds
from regard.experiments.lib.drawing import BLUE, GREEN, ORANGE, PURPLE, label_point, line, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.sequence_layers import LAYERS
from regard.experiments.lib.small_transformer import seeded
from regard.layers import FeedForward, PreNorm

TITLE = Title(en="Gradients over distance and depth", zh="梯度随距离与深度的变化")
CLAIM = Title(
    en=(
        "In a recurrent network the gradient dies exponentially with distance, in attention it does not; in a deep "
        "stack it dies too, and residual connections keep it."
    ),
    zh="循环网络的梯度随距离指数衰减，注意力的不会；很深的网络中梯度同样会消失，残差连接能使它保持。",
)
FULL = {"seeds": 20, "size": 64, "distances": (1, 2, 4, 8, 16, 32, 64, 128)}
CHINESE = {
    "network": "网络",
    "passes": "经过",
    "positions": "位置",
    "layers": "层",
    "log10, half-way": "log10（中途）",
    "log10, end": "log10（末端）",
    "log10 per step": "log10（每步）",
    "plain": "无残差",
    "residual": "残差",
    "residual, pre-norm": "残差（前置层归一化）",
    "Gradient at the input t positions back, relative to t = 1": "距离 t 处输入的梯度（相对于 t = 1）",
    "Gradient at the input of a stack, relative to one layer": "多层网络输入处的梯度（相对于一层）",
    "distance t": "距离 t",
    "number of layers": "层数",
    "norm of the gradient (log10)": "梯度范数（log10）",
}
NAMES = CHINESE | {"Attention": LABELS["Attention"]}
SEQUENCES = {"RNN": GREEN, "LSTM": PURPLE, "Attention": BLUE}
STACKS = {"plain": GREEN, "residual": ORANGE, "residual, pre-norm": BLUE}
DEAD, KEPT, STRAIGHT = -3.0, -1.0, -0.98
"""Decades: a gradient below a thousandth is dead, one above a tenth is kept. Correlation: exponential from here on."""

Decades = Mapping[str, Sequence[Sequence[float]]]
"""By network: a list over seeds of log10 of relative norms, by distance or depth."""


class Residual(nn.Module):
    """x + f(x), without a norm."""

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return states + sublayer(states)


class NoResidual(nn.Module):
    """f(x)."""

    def forward(self, states: Tensor, sublayer: Callable[[Tensor], Tensor]) -> Tensor:
        return sublayer(states)


CONNECTIONS: Mapping[str, Callable[[int], nn.Module]] = {
    "plain": lambda size: NoResidual(),
    "residual": lambda size: Residual(),
    "residual, pre-norm": lambda size: PreNorm(hidden_size=size),
}


def gradient_norms(outputs: Tensor, inputs: Tensor) -> Float[Tensor, " L"]:
    """The norm of the gradient of a random projection of the outputs, at each position of the inputs (B, L, size)."""
    (gradient,) = torch.autograd.grad((outputs * torch.randn_like(outputs)).sum(), inputs)
    # over batch and features
    return gradient.norm(dim=(0, 2))


def over_distance(name: str, *, size: int, distances: Sequence[int]) -> list[float]:
    """log10 of the gradient at each distance before the last position, relative to the first distance."""
    layers = LAYERS[name](size=size, num_layers=1).double()
    # float64, whose smallest numbers are far below the gradients of a recurrence
    inputs = torch.randn(16, max(distances) + 1, size, dtype=torch.float64, requires_grad=True)
    norms = gradient_norms(layers(inputs)[:, -1], inputs).flip(0)
    return [math.log10(norms[distance] / norms[distances[0]]) for distance in distances]


def over_depth(name: str, *, size: int, depths: Sequence[int]) -> list[float]:
    """log10 of the gradient at the input of stacks of these depths, relative to the first depth."""
    norms = []
    for depth in depths:
        inputs = torch.randn(16, 1, size, dtype=torch.float64, requires_grad=True)
        states: Tensor = inputs
        for _ in range(depth):
            layer = FeedForward(hidden_size=size, feed_forward_size=4 * size).double()
            states = CONNECTIONS[name](size).double()(states, layer)
        norms.append(gradient_norms(states, inputs)[0])
    return [math.log10(norm / norms[0]) for norm in norms]


def run(
    *,
    seed: int = 0,
    seeds: int = 10,
    size: int = 32,
    distances: Sequence[int] = (1, 2, 4, 8, 16, 32, 64),
    depths: Sequence[int] = (1, 2, 4, 8, 16, 32),
) -> Finding:
    """Measure untrained networks from `seeds` seeds."""
    positions: dict[str, list[list[float]]] = {name: [] for name in SEQUENCES}
    layers: dict[str, list[list[float]]] = {name: [] for name in STACKS}
    for index in range(seeds):
        for name, by_seed in positions.items():
            # every network from the same seed, so that comparisons are paired
            with seeded(1000 * seed + index):
                by_seed.append(over_distance(name, size=size, distances=distances))
        for name, by_seed in layers.items():
            with seeded(1000 * seed + index):
                by_seed.append(over_depth(name, size=size, depths=depths))
    holds, verdict = judge(positions, layers, distances, depths)
    rows = [*rows_of("positions", positions, distances), *rows_of("layers", layers, depths)]
    return Finding(
        name="gradients",
        claim=CLAIM,
        rows=tuple(rows),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, positions=positions, layers=layers, distances=distances, depths=depths),
    )


def rows_of(passes: str, decades: Decades, steps: Sequence[int]) -> list[Row]:
    """log10 of the relative gradient at the middle and the end, and its change per step."""
    middle = len(steps) // 2
    rows: list[Row] = []
    for name, by_seed in decades.items():
        rows.append(
            {
                "network": name,
                "passes": passes,
                **{
                    column: Measured.of(values[index] for values in by_seed)
                    for column, index in (("log10, half-way", middle), ("log10, end", -1))
                },
                "log10 per step": Measured.of(statistics.linear_regression(steps, values).slope for values in by_seed),
            }
        )
    return rows


def judge(
    positions: Decades, layers: Decades, distances: Sequence[int], depths: Sequence[int]
) -> tuple[bool | None, Title]:
    """The RNN and the plain stack end below a thousandth, along a straight line; the others above a tenth."""
    ends = {name: [values[-1] for values in by_seed] for name, by_seed in (*positions.items(), *layers.items())}
    dead = {name: exceeds([DEAD] * len(values), values, margin=0.0) for name, values in ends.items()}
    stays = {name: exceeds(values, [KEPT] * len(values), margin=0.0) for name, values in ends.items()}
    means = [statistics.fmean(column) for column in zip(*positions["RNN"], strict=True)]
    # the logarithm of an exponential is a straight line; a constant has no correlation
    exponential = len(set(means)) > 1 and statistics.correlation(distances, means) < STRAIGHT
    measured = {name: str(Measured.of(values)) for name, values in ends.items()}
    states = {name: "dead" if dead[name] else "kept" if stays[name] else "between" for name in ends}
    english = (
        f"log10 of the gradient {distances[-1]} positions back: "
        + ", ".join(f"{name} {measured[name]} ({states[name]})" for name in positions)
        + f"; in the RNN it {'falls exponentially' if exponential else 'does not fall exponentially'}. "
        f"Below {depths[-1]} layers: " + ", ".join(f"{name} {measured[name]} ({states[name]})" for name in layers) + "."
        " Dead is below a thousandth, kept above a tenth."
    )
    words = {"dead": "消失", "kept": "保持", "between": "介于两者之间"}
    chinese = (
        f"相隔 {distances[-1]} 个位置时梯度的 log10："
        + "，".join(f"{NAMES.get(name, name)} {measured[name]}（{words[states[name]]}）" for name in positions)
        + f"；RNN 的梯度{'按指数' if exponential else '并非按指数'}下降。经过 {depths[-1]} 层后："
        + "，".join(f"{NAMES.get(name, name)} {measured[name]}（{words[states[name]]}）" for name in layers)
        + "。低于千分之一为消失，高于十分之一为保持。"
    )
    facts = (
        dead["RNN"],
        exponential,
        stays["Attention"],
        dead["plain"],
        stays["residual"],
        stays["residual, pre-norm"],
    )
    return all_of(*facts), Title(en=english, zh=chinese)


def draw_figure(
    figure: Any, *, positions: Decades, layers: Decades, distances: Sequence[int], depths: Sequence[int]
) -> None:
    """log10 of the gradient by distance, and by depth."""
    left, right = panels(figure, CLAIM, 2)
    for axes, decades, steps, colours in (
        (left, positions, distances, SEQUENCES),
        (right, layers, depths, STACKS),
    ):
        for name, by_seed in decades.items():
            values = [Measured.of(column) for column in zip(*by_seed, strict=True)]
            line(axes, steps, values, colours[name])
            side = "above left" if name in ("Attention", "residual") else "below left"
            label_point(axes, steps[-1], values[-1].mean, name, colours[name], side=side)
        # a straight line on these axes is an exponential
        axes.set_xticks(steps[-3:])
        axes.margins(y=0.15)
    style_axes(
        left,
        title="Gradient at the input t positions back, relative to t = 1",
        x="distance t",
        y="norm of the gradient (log10)",
    )
    style_axes(
        right,
        title="Gradient at the input of a stack, relative to one layer",
        x="number of layers",
        y="norm of the gradient (log10)",
    )
