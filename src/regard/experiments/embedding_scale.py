"""Why embeddings are multiplied by sqrt(d_model): to match the norm of the position encodings.

    |E[token]| = 1,   |sqrt(d) E[token]| = sqrt(d),   |p(t)| = sqrt(d / 2)

for a table initialised with variance 1/d. The pairs of a sinusoid are points of the unit circle, so its norm is exactly
sqrt(d/2).
Vaswani et al. 2017, section 3.4. https://arxiv.org/abs/1706.03762
"""

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
from torch import nn

from regard.attention.positions import Sinusoidal
from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.drawing import BLUE, GREEN, GREY, ORANGE, label_point, line, logarithmic, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row, digits
from regard.experiments.lib.small_transformer import seeded
from regard.layers import Embedding

TITLE = Title(en="Why multiply embeddings by √d", zh="为什么词嵌入要乘以 √d")
CLAIM = Title(
    en=(
        "Embeddings start with norm about 1 and positions have norm about sqrt(d): multiplied by "
        "sqrt(d_model), embeddings match the positions instead of drowning in them."
    ),
    zh="词嵌入的初始范数约为 1，位置编码的范数约为 √d：词嵌入乘以 √d 后与位置编码相当，不会被它淹没。",
)


@dataclass(frozen=True, kw_only=True)
class Norms:
    """Norms of vectors of one size, over all tokens and positions."""

    size: int
    before: Measured
    after: Measured
    position: Measured

    @property
    def ratio_before(self) -> float:
        """Norm of an unscaled embedding over that of a position."""
        return self.before.mean / self.position.mean

    @property
    def ratio_after(self) -> float:
        """Norm of a scaled embedding over that of a position."""
        return self.after.mean / self.position.mean

    def row(self) -> Row:
        return {
            "size d": self.size,
            "embedding": self.before,
            "times sqrt(d)": self.after,
            "position": self.position,
            "ratio before": self.ratio_before,
            "ratio after": self.ratio_after,
        }


def inverse_root(size: int) -> float:
    """1 / sqrt(size): entries of this standard deviation give vectors of norm 1."""
    return size**-0.5


def measure(size: int, *, vocab_size: int, num_positions: int, deviation: Callable[[int], float]) -> Norms:
    """Norms of an initial table, of the output of `Embedding`, and of the sinusoids."""
    embedding = Embedding(vocab_size=vocab_size, hidden_size=size)
    # overwritten after construction, so that `deviation` can test other initialisations
    nn.init.normal_(embedding.table.weight, std=deviation(size))
    with torch.no_grad():
        before, after = embedding.table.weight, embedding(torch.arange(vocab_size))
    # sinusoids are not random: their spread is that of rounding
    position = Sinusoidal(hidden_size=size).encode(torch.arange(num_positions))
    return Norms(
        size=size,
        before=Measured.of(before.norm(dim=-1).tolist()),
        after=Measured.of(after.norm(dim=-1).tolist()),
        position=Measured.of(position.norm(dim=-1).tolist()),
    )


def run(
    *,
    seed: int = 0,
    sizes: Sequence[int] = (32, 64, 128, 256, 512, 1024),
    vocab_size: int = 2000,
    num_positions: int = 512,
    deviation: Callable[[int], float] = inverse_root,
) -> Finding:
    """Measure at each size; `deviation` is the initial standard deviation of the table's entries."""
    with seeded(seed):
        norms = [
            measure(size, vocab_size=vocab_size, num_positions=num_positions, deviation=deviation) for size in sizes
        ]
    holds, verdict = judge(norms)
    draw = partial(draw_figure, norms=norms)
    rows = tuple(norm.row() for norm in norms)
    return Finding(name="embedding_scale", claim=CLAIM, rows=rows, verdict=verdict, holds=holds, draw=draw)


def judge(norms: list[Norms]) -> tuple[bool, Title]:
    """Matched: within a factor of two at every size. Drowned: less than half at the largest."""
    matched = all(0.5 < norm.ratio_after < 2 for norm in norms)
    drowned = norms[-1].ratio_before < 0.5
    last = norms[-1]
    against_root = last.position.mean / math.sqrt(last.size)
    # a tolerance for float32, in which the sinusoids are computed
    exact = all(abs(norm.position.mean / math.sqrt(norm.size / 2) - 1) < 1e-4 for norm in norms)
    english = (
        f"At d = {last.size} an embedding has norm {last.before} before and {last.after} after the scaling, a position "
        f"{digits(last.position.mean)}: the embedding is {digits(last.ratio_before)} and then "
        f"{digits(last.ratio_after)} times the position. "
    )
    english += f"Unscaled it {'drowns' if drowned else 'does not drown'}; scaled it "
    english += "matches" if matched else "does not match"
    english += f" within a factor of 2 at {'all' if matched else 'each of the'} {len(norms)} sizes."
    english += f" Positions have norm {against_root:.3f} sqrt(d)"
    english += ", exactly sqrt(d/2) and not sqrt(d)." if exact else "."
    chinese = (
        f"d = {last.size} 时，词嵌入的范数在缩放前为 {last.before}，缩放后为 {last.after}，位置编码为 "
        f"{digits(last.position.mean)}：词嵌入先是位置编码的 {digits(last.ratio_before)} 倍，缩放后是 "
        f"{digits(last.ratio_after)} 倍。不缩放时它{'会' if drowned else '不会'}被淹没；缩放后，"
    )
    chinese += f"{len(norms)} 个维度{'都' if matched else '并非都'}与位置编码相差不到一倍。"
    chinese += f"位置编码的范数是 {against_root:.3f} √d" + ("，恰好是 √(d/2)，而不是 √d。" if exact else "。")
    return matched and drowned, Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, norms: list[Norms]) -> None:
    """Norms, and the ratio of embedding to position, by size."""
    left, right = panels(figure, CLAIM, 2)
    sizes = [norm.size for norm in norms]
    middle = len(norms) // 2
    for values, name, colour, side in (
        ([norm.after for norm in norms], "embedding times sqrt(d)", BLUE, "left above"),
        ([norm.position for norm in norms], "position: sqrt(d/2)", GREEN, "right below"),
        ([norm.before for norm in norms], "embedding", ORANGE, "above"),
    ):
        line(left, sizes, values, colour)
        label_point(left, sizes[middle], values[middle].mean, name, colour, side=side)
    logarithmic(left, x=sizes, y=True)
    style_axes(left, title="Norms (bars: spread over tokens)", x="size d", y="norm")
    right.axhline(1, color=GREY, linestyle=":")
    label_point(right, sizes[0], 1, "equal", GREY, side="right above")
    for ratios, name, colour, side in (
        ([norm.ratio_after for norm in norms], "scaled", BLUE, "above"),
        ([norm.ratio_before for norm in norms], "unscaled", ORANGE, "right above"),
    ):
        right.plot(sizes, ratios, color=colour, marker="o", markersize=5)
        label_point(right, sizes[middle], ratios[middle], f"{label(name)}: {digits(ratios[middle])}", colour, side=side)
    right.margins(y=0.12)
    logarithmic(right, x=sizes, y=True)
    style_axes(
        right,
        title="Norm of the embedding relative to the position",
        x="size d",
        y="norm of embedding / norm of position",
    )
