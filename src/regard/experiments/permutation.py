"""Self-attention does not depend on the order of its inputs; position encodings add that.

    f(P x) = P f(x)          for every permutation P, without positions
    g(q, P m) = g(q, m)      cross-attention, which reads its memory m as a set

Refuted if outputs deviate beyond rounding without positions, or do not with them.
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
from regard.contracts import PositionScheme, Title
from regard.experiments.lib.chinese import LABELS, label
from regard.experiments.lib.drawing import BLUE, GREY, ORANGE, label_point, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.small_transformer import seeded

TITLE = Title(en="Permuted inputs", zh="打乱顺序")
CLAIM = Title(
    en=(
        "Self-attention is permutation-equivariant: reorder the inputs and the outputs are reordered alike. "
        "Positions break that, so that order counts. Cross-attention reads its memory as a set."
    ),
    zh="自注意力是置换等变的：打乱输入，输出以同样方式打乱；位置编码打破这种等变性，顺序才有作用。交叉注意力把记忆（它所关注的序列）当作集合。",
)
CHINESE = {
    "attention": "注意力",
    "self-attention": "自注意力",
    "cross-attention": "交叉注意力",
    "equivariant": "不受顺序影响",
    "not equivariant": "受顺序影响",
    "{}, {}": "{}，{}",
}
ROUNDING = 1e-9
MEMORIES = ("none", "sinusoidal")
"""Schemes for the memory of cross-attention."""

Deviations = dict[str, list[float]]
"""By scheme; one per repetition."""


@dataclass(frozen=True, kw_only=True)
class Shape:
    """Sizes of the attention under test."""

    hidden_size: int
    num_heads: int
    length: int

    @property
    def head_size(self) -> int:
        return self.hidden_size // self.num_heads


@dataclass(frozen=True, kw_only=True)
class Scheme:
    """How positions enter: added to the states, inside the heads, or through a mask."""

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
"""A causal mask is not a position encoding, but it depends on the order too."""


def deviation(scheme: Scheme, shape: Shape, order: Int[Tensor, " L"]) -> float:
    """|f(P x) - P f(x)| / |f(x)| of an attention with random weights on random states."""
    # double precision, so that rounding stays far below real deviations
    attention = MultiHeadAttention(shape.hidden_size, shape.num_heads, positions=scheme.inside).double()
    states = torch.randn(1, shape.length, shape.hidden_size, dtype=torch.float64)

    def apply(inputs: Float[Tensor, "1 L hidden"]) -> Float[Tensor, "1 L hidden"]:
        encoded = inputs if scheme.added is None else scheme.added.double()(inputs)
        return attention(encoded, mask=scheme.mask).context

    with torch.no_grad():
        # f(x) is permuted on the left, x on the right
        first, second = apply(states)[:, order], apply(states[:, order])
    # relative, so that the scale of the random weights has no influence
    return ((second - first).norm() / first.norm()).item()


def memory_deviation(added: nn.Module | None, shape: Shape, order: Int[Tensor, " L"]) -> float:
    """|g(q, P m) - g(q, m)| / |g(q, m)| of a cross-attention; positions are those before and after reordering."""
    attention = MultiHeadAttention(shape.hidden_size, shape.num_heads).double()
    queries, memory = (torch.randn(1, shape.length, shape.hidden_size, dtype=torch.float64) for _ in range(2))

    def apply(states: Float[Tensor, "1 L hidden"]) -> Float[Tensor, "1 L hidden"]:
        encoded = states if added is None else added.double()(states)
        return attention(queries, attention.prepare_memory(encoded)).context

    with torch.no_grad():
        first, second = apply(memory), apply(memory[:, order])
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
    """Permute the inputs of `repeats` attentions per scheme; `bare` names the scheme that should be equivariant."""
    shape = Shape(hidden_size=hidden_size, num_heads=num_heads, length=length)
    with seeded(seed):
        deviations = {
            # a new scheme per repetition, since learned positions are parameters
            name: [deviation(SCHEMES[name](shape), shape, torch.randperm(length)) for _ in range(repeats)]
            for name in schemes
        }
        memory = {
            name: [memory_deviation(SCHEMES[name](shape).added, shape, torch.randperm(length)) for _ in range(repeats)]
            for name in MEMORIES
        }
    # of equivariance in self-attention, of invariance in cross-attention
    kinds = {"self-attention": deviations, "cross-attention": memory}
    measured = {(kind, name): Measured.of(values) for kind, by in kinds.items() for name, values in by.items()}
    rows: tuple[Row, ...] = tuple(
        {
            "attention": kind,
            "positions": name,
            "deviation": value,
            "equivariant": "yes" if max(kinds[kind][name]) < ROUNDING else "no",
        }
        for (kind, name), value in measured.items()
    )
    holds, verdict = judge(deviations, memory, bare)
    draw = partial(draw_figure, measured=measured)
    return Finding(name="permutation", claim=CLAIM, rows=rows, verdict=verdict, holds=holds, draw=draw)


def judge(deviations: Deviations, memory: Deviations, bare: str) -> tuple[bool, Title]:
    """The bare attention never deviates beyond rounding; attention with a position scheme always does.

    Cross-attention does not depend on the order of its memory, unless positions are added to that.
    """
    # the causal mask is no position scheme and has a verdict of its own
    others = {name: values for name, values in deviations.items() if name not in (bare, "causal mask")}
    equivariant = max(deviations[bare]) < ROUNDING
    # the smallest deviation: a scheme must break the symmetry for every permutation
    broken = [name for name, values in others.items() if min(values) > ROUNDING]
    english = (
        f"{'Without' if bare == 'none' else f'With {bare}'} positions the outputs deviate by at most "
        f"{max(deviations[bare]):.1e}: self-attention {'is' if equivariant else 'is not'} permutation-equivariant. "
        f"{len(broken)} of {len(others)} other schemes break it"
    )
    english += f" (deviations from {min(map(min, others.values())):.2g} to {max(map(max, others.values())):.2g})."
    chinese = (
        f"{'没有位置编码' if bare == 'none' else f'使用{LABELS.get(bare, bare)}位置编码'}时，输出的偏差最多为 "
        f"{max(deviations[bare]):.1e}：自注意力{'是' if equivariant else '不是'}置换等变的。"
        f"其余 {len(others)} 种方案中有 {len(broken)} 种打破等变性"
        f"（偏差从 {min(map(min, others.values())):.2g} 到 {max(map(max, others.values())):.2g}）。"
    )
    if "causal mask" in deviations and min(deviations["causal mask"]) > ROUNDING:
        mask_alone = Measured.of(deviations["causal mask"]).mean
        english += f" So does a causal mask alone ({mask_alone:.2f}): positions are not the only way."
        chinese += f"只用因果掩码也会打破等变性（{mask_alone:.2f}）：位置编码不是唯一的办法。"
    is_set, is_ordered = max(memory["none"]) < ROUNDING, min(memory["sinusoidal"]) > ROUNDING
    english += (
        f" With its memory reordered, the output of cross-attention deviates by at most {max(memory['none']):.1e}: it "
        f"{'reads a set' if is_set else 'does not read a set'}; with sinusoids in the memory by at least "
        f"{min(memory['sinusoidal']):.2g}."
    )
    chinese += (
        f"打乱记忆后，交叉注意力的输出最多变化 {max(memory['none']):.1e}："
        f"它{'把记忆当作集合' if is_set else '没有把记忆当作集合'}；记忆加上正弦位置编码后至少变化 "
        f"{min(memory['sinusoidal']):.2g}。"
    )
    return equivariant and len(broken) == len(others) and is_set and is_ordered, Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, measured: dict[tuple[str, str], Measured]) -> None:
    """A dot per scheme, and two for the memory of cross-attention, on a logarithmic scale from rounding errors to 1."""
    (axes,) = panels(figure, CLAIM, 1)
    for position, value in enumerate(measured.values()):
        colour = BLUE if value.mean < ROUNDING else ORANGE
        # from the left end of the axis: on a logarithmic scale there is no 0
        axes.plot([1e-17, value.mean], [position, position], color=colour, linewidth=1, alpha=0.5)
        axes.plot(value.mean, position, "o", color=colour)
        label_point(
            axes, value.mean, position, f"{value.mean:.1e}" if value.mean < 1e-3 else f"{value.mean:.2f}", colour
        )
    axes.axvline(ROUNDING, color=GREY, linestyle=":")
    label_point(axes, ROUNDING, -0.6, "equivariant", GREY, side="left")
    label_point(axes, ROUNDING, -0.6, "not equivariant", GREY, side="right")
    # names without a site are those of self-attention
    names = [
        label(name) if site == "self-attention" else label("{}, {}").format(label(site), label(name))
        for site, name in measured
    ]
    axes.set_yticks(range(len(measured)), names)
    axes.set_ylim(len(measured) - 0.5, -1)
    axes.set_xscale("log")
    axes.set_xlim(1e-17, 100)
    style_axes(
        axes, title="Outputs for permuted inputs against permuted outputs", x="relative deviation", y="positions"
    )
