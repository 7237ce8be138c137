"""Style of the figures: the colour-blind safe colours of Okabe and Ito, and labels at the lines instead of a legend."""

import re
import textwrap
from collections.abc import Sequence
from typing import Any

from regard.contracts import Title
from regard.experiments.lib.chinese import in_chinese, label
from regard.experiments.lib.finding import Measured, Number

BLACK, GREY = "#000000", "#767676"
BLUE, ORANGE, GREEN, PURPLE = "#0072B2", "#D55E00", "#009E73", "#CC79A7"


def panels(figure: Any, claim: Title, count: int) -> list[Any]:
    """Axes side by side under the claim."""
    figure.set_size_inches({1: 8, 2: 10.4}.get(count, 4.4 * count), 4.8)
    # characters per inch at this font size; Chinese ones are twice as wide
    width = figure.get_size_inches()[0]
    lines = wrap_chinese(claim.zh, int(width * 5.6)) if in_chinese() else textwrap.wrap(claim.en, int(width * 10.5))
    figure.suptitle("\n".join(lines), fontsize=11, x=0.01, ha="left")
    figure.get_layout_engine().set(wspace=0.08)
    return list(figure.subplots(1, count, squeeze=False)[0])


def wrap_chinese(text: str, width: int) -> list[str]:
    """Lines of at most `width` characters; names in Latin letters are not divided."""
    lines = [""]
    for piece in re.findall(r"[A-Za-z0-9-]+|.", text):
        # a punctuation mark does not begin a line
        if len(lines[-1]) + len(piece) > width and piece not in "，。；：、）":
            lines.append("")
        lines[-1] += piece
    return lines


def style_axes(axes: Any, *, title: str, x: str, y: str) -> None:
    """Title, axis names, and no spines at the top and right."""
    axes.set_title(label(title), fontsize=10, loc="left")
    axes.set_xlabel(label(x))
    axes.set_ylabel(label(y))
    axes.spines[["top", "right"]].set_visible(False)


def logarithmic(axes: Any, *, x: Sequence[int] | None = None, y: bool = False) -> None:
    """Logarithmic axes with plain numbers: x at the given values, y at 1, 2 and 5 unless the range is too large."""
    if x is not None:
        axes.set_xscale("log")
        axes.set_xticks(x, [str(value) for value in x])
        # minor ticks would print numbers between the given ones
        axes.set_xticks([], minor=True)
    if y:
        axes.set_yscale("log", subs=[2, 5])
        low, high = axes.get_ylim()
        axes.yaxis.set_major_formatter("{x:g}")
        # over a larger range the labels at 2 and 5 would overlap
        axes.yaxis.set_minor_formatter("{x:g}" if high < 300 * low else "")


def line(axes: Any, sizes: Sequence[Number], values: Sequence[Measured], colour: str) -> None:
    """Means with their spread as error bars."""
    means, spreads = [value.mean for value in values], [value.spread for value in values]
    axes.errorbar(sizes, means, spreads, color=colour, marker="o", markersize=5, capsize=3, linewidth=1.6)


def label_point(axes: Any, x: Number, y: Number, text: str, colour: str, *, side: str = "right") -> None:
    """A label beside a point; `side` is right, left, above or below, or two of them."""
    horizontal = 1 if "right" in side else -1 if "left" in side else 0
    vertical = 1 if "above" in side else -1 if "below" in side else 0
    axes.annotate(
        label(text),
        (x, y),
        xytext=(8 * horizontal, 11 * vertical),
        textcoords="offset points",
        color=colour,
        fontsize=9,
        # indexed by 0, 1 and -1: a label to the right begins at its point, one to the left ends there
        ha=("center", "left", "right")[horizontal],
        va="center",
        # labels may extend beyond the axes
        annotation_clip=False,
    )
