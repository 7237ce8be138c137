"""Self-attention does not know the order of its inputs; positions tell it.

    f(P x) = P f(x)     for every permutation P, without positions

Vaswani et al. 2017, section 3.5. https://arxiv.org/abs/1706.03762
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention import MultiHeadAttention
from regard.attention.masks import ComposableMask, causal
from regard.attention.positions import Alibi, Learned, Relative, Rotary, Sinusoidal
from regard.contracts import PositionScheme
from regard.experiments.lib.drawing import BLUE, GREY, ORANGE, dress, name_at, panels
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.small_transformer import seeded

CLAIM = (
    "Self-attention is permutation-equivariant: reorder the inputs and the outputs are reordered alike. Positions "
    "break that, so that order counts."
)
ROUNDING = 1e-9


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of the attention under test."""

    hidden_size: int
    num_heads: int
    length: int

    @property
    def head_size(self) -> int:
        """What schemes inside the heads are built for."""
        return self.hidden_size // self.num_heads


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """Where a position enters: added to the states, inside the heads, or through a mask."""

    added: nn.Module | None = None
    inside: PositionScheme | None = None
    mask: ComposableMask | None = None


SCHEMES: dict[str, Callable[[Shape], Scheme]] = {
    "none": lambda shape: Scheme(),
    "learned": lambda shape: Scheme(added=Learned(hidden_size=shape.hidden_size, max_length=shape.length)),
    "sinusoidal": lambda shape: Scheme(added=Sinusoidal(hidden_size=shape.hidden_size)),
    "relative": lambda shape: Scheme(inside=Relative(head_size=shape.head_size)),
    "rotary": lambda shape: Scheme(inside=Rotary(head_size=shape.head_size)),
    "alibi": lambda shape: Scheme(inside=Alibi(num_heads=shape.num_heads)),
    "causal mask": lambda shape: Scheme(mask=causal()),
}
"""A causal mask is no position, but it too says who comes first."""


def deviation(scheme: Scheme, shape: Shape, order: Int[Tensor, " L"]) -> float:
    """|f(P x) - P f(x)| / |f(x)| of a fresh attention on random states."""
    attention = MultiHeadAttention(shape.hidden_size, shape.num_heads, positions=scheme.inside).double()
    states = torch.randn(1, shape.length, shape.hidden_size, dtype=torch.float64)

    def apply(given: Float[Tensor, "1 L hidden"]) -> Float[Tensor, "1 L hidden"]:
        placed = given if scheme.added is None else scheme.added.double()(given)
        return attention(placed, mask=scheme.mask).context

    with torch.no_grad():
        first, second = apply(states)[:, order], apply(states[:, order])
    return ((second - first).norm() / first.norm()).item()


def run(
    *,
    seed: int = 0,
    repeats: int = 10,
    hidden_size: int = 64,
    num_heads: int = 4,
    length: int = 16,
    bare: str = "none",
    schemes: Sequence[str] = tuple(SCHEMES),
) -> Finding:
    """Permute the inputs of `repeats` attentions a scheme; `bare` names the one that should have no positions."""
    shape = Shape(hidden_size=hidden_size, num_heads=num_heads, length=length)
    with seeded(seed):
        seen = {
            name: [deviation(SCHEMES[name](shape), shape, torch.randperm(length)) for _ in range(repeats)]
            for name in schemes
        }
    measured = {name: Measured.of(values) for name, values in seen.items()}
    rows: tuple[Row, ...] = tuple(
        {"positions": name, "deviation": value, "equivariant": "yes" if max(seen[name]) < ROUNDING else "no"}
        for name, value in measured.items()
    )
    holds, verdict = judge(seen, bare)
    draw = partial(draw_figure, measured=measured)
    return Finding(name="permutation", claim=CLAIM, rows=rows, verdict=verdict, holds=holds, draw=draw)


def judge(seen: dict[str, list[float]], bare: str) -> tuple[bool, str]:
    """The bare attention never deviates beyond rounding, every position scheme always does."""
    rest = {name: values for name, values in seen.items() if name not in (bare, "causal mask")}
    equivariant = max(seen[bare]) < ROUNDING
    broken = [name for name, values in rest.items() if min(values) > ROUNDING]
    said = (
        f"{'Without' if bare == 'none' else f'With {bare}'} positions the outputs deviate by at most "
        f"{max(seen[bare]):.1e}: self-attention {'is' if equivariant else 'is not'} permutation-equivariant there. "
        f"{len(broken)} of {len(rest)} other schemes break it"
    )
    said += f" (deviations from {min(map(min, rest.values())):.2g} to {max(map(max, rest.values())):.2g})."
    if "causal mask" in seen and min(seen["causal mask"]) > ROUNDING:
        alone = Measured.of(seen["causal mask"]).mean
        said += f" So does a causal mask alone ({alone:.2f}): positions are not the only way."
    return equivariant and len(broken) == len(rest), said


def draw_figure(figure: Any, *, measured: dict[str, Measured]) -> None:
    """A dot a scheme, on a scale that reaches from rounding to everything."""
    (axes,) = panels(figure, CLAIM, 1)
    for place, value in enumerate(measured.values()):
        colour = BLUE if value.mean < ROUNDING else ORANGE
        axes.plot([1e-17, value.mean], [place, place], color=colour, linewidth=1, alpha=0.5)
        axes.plot(value.mean, place, "o", color=colour)
        name_at(axes, value.mean, place, f"{value.mean:.1e}" if value.mean < 1e-3 else f"{value.mean:.2f}", colour)
    axes.axvline(ROUNDING, color=GREY, linestyle=":")
    name_at(axes, ROUNDING, -0.6, "equivariant", GREY, side="left")
    name_at(axes, ROUNDING, -0.6, "not equivariant", GREY, side="right")
    axes.set_yticks(range(len(measured)), list(measured))
    axes.set_ylim(len(measured) - 0.5, -1)
    axes.set_xscale("log")
    axes.set_xlim(1e-17, 100)
    dress(axes, title="Outputs of reordered inputs, against reordered outputs", x="relative deviation", y="positions")
