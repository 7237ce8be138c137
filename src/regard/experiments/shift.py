"""Shift: a CNN knows relative positions and no absolute ones; which of both does attention know with each scheme?

    f(shift x) = shift f(x)    for every shift: the absolute position has no influence
    f(P x) != P f(x)           for a permutation P: the order, hence the relative position, has one

The claim is that of a text on the history of attention: a CNN is sensitive to relative and insensitive to absolute
position. A block of random tokens is placed in a longer frame, in which only the block exists: other positions are
padding to the convolution and masked to attention. Then the block is moved, and its tokens are reordered. Refuted if
the outputs of the CNN change when the block moves, or do not change when its tokens are reordered. Where the text fills
the frame, the padding at its edges shows a CNN where it is: Islam, Jia and Bruce 2020. https://arxiv.org/abs/2001.08248
"""

import math
import statistics
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention import POSITIONS, MultiHeadAttention
from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, PURPLE, label_point, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row, digits
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.permutation import ROUNDING, SCHEMES, Shape
from regard.layers import SameConvolution

TITLE = Title(en="Shifted inputs", zh="平移输入")
CLAIM = Title(
    en=(
        "A CNN knows relative positions and no absolute ones, like attention with relative, rotary or ALiBi "
        "positions; learned and sinusoidal ones are absolute, and without positions attention knows neither."
    ),
    zh=(
        "CNN 知道相对位置，不知道绝对位置，与使用相对位置、RoPE 或 ALiBi 的注意力相同；可学习和正弦位置编码是绝对的；"
        "没有位置编码的注意力两者都不知道。"
    ),
)
CHINESE = {
    "change by a shift": "平移引起的变化",
    "change by reordering": "打乱引起的变化",
    "knows": "知道的位置",
    "relative only": "仅相对位置",
    "absolute": "绝对位置",
    "neither": "两者都不知道",
    "CNN, filled frame": "CNN（文本占满外框）",
    "attention, none": "注意力（无位置编码）",
    "attention, learned": "注意力（可学习）",
    "attention, sinusoidal": "注意力（正弦）",
    "attention, relative": "注意力（相对位置）",
    "attention, rotary": "注意力（旋转，RoPE）",
    "attention, alibi": "注意力（ALiBi）",
    "attention: {}": "注意力：{}",
    ", ": "、",
    "Outputs after a shift, and after reordering": "平移后与打乱后的输出",
    "relative change by a shift of the block": "平移引起的相对变化",
    "relative change by reordering the block": "打乱引起的相对变化",
    "relative positions only": "仅知道相对位置",
    "absolute positions": "知道绝对位置",
    "no positions": "不知道位置",
}
CNN, FILLED = "CNN", "CNN, filled frame"
EXPECTED = {
    CNN: "relative only",
    "attention, none": "neither",
    "attention, learned": "absolute",
    "attention, sinusoidal": "absolute",
    "attention, relative": "relative only",
    "attention, rotary": "relative only",
    "attention, alibi": "relative only",
}
"""What each system knows according to the claim."""

FLOOR = 1e-17
"""Changes of exactly 0 are drawn here."""
System = Callable[[Float[Tensor, "1 N hidden"], Bool[Tensor, "1 N"]], Float[Tensor, "1 N hidden"]]


class SmallCNN(nn.Module):
    """Two convolutions over three positions each."""

    def __init__(self, hidden_size: int) -> None:
        super().__init__()
        self.layers = nn.ModuleList(SameConvolution(hidden_size=hidden_size) for _ in range(2))

    def forward(self, states: Float[Tensor, "1 N hidden"], mask: Bool[Tensor, "1 N"]) -> Float[Tensor, "1 N hidden"]:
        """Outputs of the last layer."""
        for layer in self.layers:
            states = layer(states, mask)
        return states


class PlacedAttention(nn.Module):
    """Self-attention with a position scheme, over the positions that exist."""

    def __init__(self, scheme: str, shape: Shape) -> None:
        super().__init__()
        built = SCHEMES[scheme](shape)
        self.added = nn.Identity() if built.added is None else built.added
        self.attention = MultiHeadAttention(shape.hidden_size, shape.num_heads, positions=built.inside)

    def forward(self, states: Float[Tensor, "1 N hidden"], mask: Bool[Tensor, "1 N"]) -> Float[Tensor, "1 N hidden"]:
        """Outputs at all positions."""
        length = states.shape[1]
        return self.attention(self.added(states), mask=mask.expand(length, length)).context


def make_systems(shape: Shape) -> dict[str, nn.Module]:
    """New random weights for the CNN and for attention with every scheme; `shape` has the length of the frame."""
    systems: dict[str, nn.Module] = {CNN: SmallCNN(shape.hidden_size)}
    for scheme in ("none", *POSITIONS):
        systems[f"attention, {scheme}"] = PlacedAttention(scheme, shape)
    # double precision, so that rounding stays far below real changes
    return {name: system.double() for name, system in systems.items()}


def outputs_of(system: System, block: Float[Tensor, "L hidden"], offset: int, frame: int) -> Float[Tensor, "L hidden"]:
    """The outputs for a block of tokens at this place in the frame."""
    states, mask = block.new_zeros(1, frame, block.shape[1]), torch.zeros(1, frame, dtype=torch.bool)
    place = slice(offset, offset + len(block))
    states[0, place], mask[0, place] = block, True
    return system(states, mask)[0, place]


def change(first: Float[Tensor, "L hidden"], second: Float[Tensor, "L hidden"]) -> float:
    """Relative, so that the scale of the random weights has no influence."""
    return ((second - first).norm() / first.norm()).item()


@dataclass(frozen=True)
class Changes:
    """How much the outputs of a system change by a shift of the block, and by reordering it."""

    shifted: float
    reordered: float

    @classmethod
    def of(cls, system: System, block: Float[Tensor, "L hidden"], order: Int[Tensor, " L"], frame: int) -> "Changes":
        """Move the block from the beginning to the end of the frame, and reorder it at the beginning."""
        first = outputs_of(system, block, 0, frame)
        return cls(
            shifted=change(first, outputs_of(system, block, frame - len(block), frame)),
            # f(x) is permuted on the left, x on the right
            reordered=change(first[order], outputs_of(system, block[order], 0, frame)),
        )

    @classmethod
    def in_filled_frame(cls, system: System, text: Float[Tensor, "M hidden"], frame: int) -> "Changes":
        """The frame moves over a longer text; the tokens that it shows before and after have other edges."""
        shift = len(text) - frame
        first, second = (outputs_of(system, text[begin:][:frame], 0, frame) for begin in (0, shift))
        order = torch.arange(frame).flip(0)
        reordered = outputs_of(system, text[:frame][order], 0, frame)
        return cls(shifted=change(first[shift:], second[:-shift]), reordered=change(first[order], reordered))


def run(
    *, seed: int = 0, repeats: int = 10, hidden_size: int = 32, num_heads: int = 4, frame: int = 32, block: int = 12
) -> Finding:
    """Shift and reorder random blocks, with new weights in each repetition."""
    shape = Shape(hidden_size=hidden_size, num_heads=num_heads, length=frame)
    changes: dict[str, list[Changes]] = {name: [] for name in (*EXPECTED, FILLED)}
    with seeded(seed), torch.no_grad():
        for _ in range(repeats):
            systems = make_systems(shape)
            text = torch.randn(frame + block, hidden_size, dtype=torch.float64)
            order = torch.randperm(block)
            for name, system in systems.items():
                changes[name].append(Changes.of(system, text[:block], order, frame))
            changes[FILLED].append(Changes.in_filled_frame(systems[CNN], text, frame))
    rows: list[Row] = [
        {
            "system": name,
            "change by a shift": Measured.of(one.shifted for one in values),
            "change by reordering": Measured.of(one.reordered for one in values),
            "knows": knowledge(values),
        }
        for name, values in changes.items()
    ]
    holds, verdict = judge(changes)
    draw = partial(draw_figure, changes=changes)
    return Finding(name="shift", claim=CLAIM, rows=tuple(rows), verdict=verdict, holds=holds, draw=draw)


def knowledge(changes: Sequence[Changes]) -> str:
    """Absolute if a shift ever changes the outputs beyond rounding; relative if only the order does, always."""
    if max(one.shifted for one in changes) > ROUNDING:
        return "absolute"
    return "relative only" if min(one.reordered for one in changes) > ROUNDING else "neither"


def judge(changes: Mapping[str, Sequence[Changes]]) -> tuple[bool, Title]:
    """Every system knows what the claim says; the filled frame is reported beside it."""
    result = {name: knowledge(changes[name]) for name in EXPECTED}
    wrong = [name for name, expected in EXPECTED.items() if result[name] != expected]
    shifted, reordered = (max(getattr(one, kind) for one in changes[CNN]) for kind in ("shifted", "reordered"))
    edges = Measured.of(one.shifted for one in changes[FILLED])
    by_kind = {kind: [name for name in EXPECTED if result[name] == kind] for kind in set(EXPECTED.values())}
    groups = [f"{kind.capitalize()}: {'; '.join(by_kind[kind]) or 'none'}." for kind in sorted(by_kind)]
    english = (
        f"A shift changes the outputs of the CNN by at most {digits(shifted, 2)}, reordering by up to {reordered:.2f}. "
        f"What the systems know: {' '.join(groups)}"
    )
    english += f" {len(EXPECTED) - len(wrong)} of {len(EXPECTED)} are as claimed. "
    english += f"In a filled frame the edges change the outputs of the CNN by {edges} when it moves."
    groups = [
        f"{CHINESE[kind]}：{'、'.join(CHINESE.get(name, name) for name in by_kind[kind]) or '无'}。"
        for kind in sorted(by_kind)
    ]
    chinese = (
        f"平移使 CNN 的输出最多变化 {digits(shifted, 2)}，打乱则最多变化 {reordered:.2f}。"
        f"各系统知道的位置如下。{''.join(groups)}"
        f"{len(EXPECTED)} 个系统中有 {len(EXPECTED) - len(wrong)} 个与说法一致。"
        f"文本占满外框时，移动改变了边缘处的内容，CNN 的输出因此变化 {edges}。"
    )
    return not wrong, Title(en=english, zh=chinese)


def middle_of(changes: Sequence[Changes]) -> tuple[float, float]:
    """The middle of the points on logarithmic axes."""
    x, y = (
        statistics.fmean(math.log10(max(getattr(one, kind), FLOOR)) for one in changes)
        for kind in ("shifted", "reordered")
    )
    return 10**x, 10**y


def draw_figure(figure: Any, *, changes: Mapping[str, Sequence[Changes]]) -> None:
    """Each system by its change under a shift and under reordering: a quarter for each kind of knowledge."""
    (axes,) = panels(figure, CLAIM, 1)
    colours = dict.fromkeys(EXPECTED, BLUE) | {CNN: ORANGE, FILLED: PURPLE}
    for name, values in changes.items():
        points = ([max(getattr(one, kind), FLOOR) for one in values] for kind in ("shifted", "reordered"))
        axes.plot(*points, "o", color=colours[name], markersize=6, alpha=0.5, markeredgewidth=0)
    for kind in ("axvline", "axhline"):
        getattr(axes, kind)(ROUNDING, color=GREY, linestyle=":", zorder=0)
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(FLOOR / 3, 100)
    axes.set_ylim(FLOOR / 300, 3e4)
    label_point(axes, *middle_of(changes[CNN]), CNN, ORANGE, side="right above")
    label_point(axes, *middle_of(changes[FILLED]), FILLED, PURPLE, side="left above")
    # systems that know the same are in the same place, so that they have one label
    for group in dict.fromkeys(EXPECTED.values()):
        names = [name for name in EXPECTED if name != CNN and knowledge(changes[name]) == group]
        if names:
            listed = label(", ").join(label(name.removeprefix("attention, ")) for name in names)
            text = label("attention: {}").format(listed)
            side = "left below" if group == "absolute" else "right below"
            label_point(axes, *middle_of([one for name in names for one in changes[name]]), text, BLUE, side=side)
    for x, y, text in (
        (3e-14, 3e3, "relative positions only"),
        (1e-4, 3e3, "absolute positions"),
        (3e-14, 1e-11, "no positions"),
    ):
        label_point(axes, x, y, text, GREEN, side="middle")
    style_axes(
        axes,
        title="Outputs after a shift, and after reordering",
        x="relative change by a shift of the block",
        y="relative change by reordering the block",
    )
