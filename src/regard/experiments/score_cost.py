"""The cost of a score: a dot product is cheaper than an additive score, and a cosine slower than a dot product.

    dot       q . k                        Q K d multiplications, as one matrix product
    cosine    q . k / (|q| |k|)            and a norm for every query and key
    additive  v . tanh(W q + U k)          Q K h tanh, for which no matrix product exists

Vaswani et al. 2017, section 3.2.1, for dot and additive; that a cosine is slower, because of its divisions and roots,
is from a lecture's notes. Measured side by side in this process on one thread: with all weights formed, as the formulas
say, and as attention runs by default, fused where a kernel exists. The numbers depend on the machine, the verdict is
that of the machine at hand. Refuted if additive is not slower, or cosine not slower, in the turns of any size.
https://arxiv.org/abs/1706.03762
"""

import statistics
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

import torch

from regard.attention import attend
from regard.attention.scores import Additive, Cosine, Dot
from regard.contracts import Score, Title
from regard.experiments.lib.decision import all_of
from regard.experiments.lib.drawing import BLUE, GREEN, ORANGE, label_point, line, logarithmic, panels, style_axes
from regard.experiments.lib.finding import Finding, Measured, Row, digits
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.timing import interleaved, is_slower, median_of

TITLE = Title(en="The cost of a score", zh="评分函数的代价")
CLAIM = Title(
    en="The dot product is cheaper than the additive score, and the cosine is slower than the dot product.",
    zh="点积的计算代价低于加性评分函数，余弦比点积慢。",
)
CHINESE = {
    "weights": "权重",
    "length": "长度",
    "formed": "显式算出",
    "default": "默认方式",
    "cosine": "余弦",
    "additive": "加性",
    "dot (ms)": "点积（毫秒）",
    "cosine (ms)": "余弦（毫秒）",
    "additive (ms)": "加性（毫秒）",
    "additive / dot": "加性 / 点积",
    "cosine / dot": "余弦 / 点积",
    "All weights formed": "算出全部权重",
    "As attention runs by default": "注意力默认的运行方式",
    "queries and keys": "查询数与键数",
    "milliseconds (bars: middle half)": "毫秒（误差棒：中间一半的数据）",
}
FULL = {"turns": 101, "lengths": (16, 32, 64, 128, 256, 512, 1024)}
FORMED, DEFAULT = "formed", "default"
NAMES = ("dot", "cosine", "additive")
Times = Mapping[tuple[str, int], Mapping[str, Sequence[float]]]
"""Seconds per turn by score, for weights that are formed or not and for every length."""


def candidates(length: int, size: int, *, formed: bool) -> dict[str, Callable[[], object]]:
    """Attention of random queries to as many random keys with each score."""
    queries, keys, values = (torch.randn(1, length, size) for _ in range(3))
    additive = Additive(query_size=size, key_size=size, hidden_size=size).requires_grad_(False)
    scores: dict[str, Score] = {"dot": Dot(), "cosine": Cosine(), "additive": additive}
    return {
        name: partial(attend, queries, keys, values, score=score, return_weights=formed)
        for name, score in scores.items()
    }


def run(*, seed: int = 0, turns: int = 41, size: int = 64, lengths: Sequence[int] = (16, 32, 64, 128, 256)) -> Finding:
    """Time the scores in turns, for every length, formed and by default."""
    times: dict[tuple[str, int], dict[str, list[float]]] = {}
    # one thread: with more the others of the machine would be measured too
    with seeded(seed), torch.no_grad():
        for path in (FORMED, DEFAULT):
            for length in lengths:
                times[path, length] = interleaved(candidates(length, size, formed=path == FORMED), turns=turns)
    holds, verdict = judge(times)
    return Finding(
        name="score_cost",
        claim=CLAIM,
        rows=tuple(rows_of(times)),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, times=times),
    )


def rows_of(times: Times) -> list[Row]:
    """A row for every length and path, in milliseconds."""
    rows: list[Row] = []
    for (path, length), seconds in times.items():
        row: Row = {"weights": path, "length": length}
        row |= {f"{name} (ms)": milliseconds(seconds[name]) for name in NAMES}
        row |= {f"{name} / dot": ratio(seconds, name) for name in ("additive", "cosine")}
        rows.append(row)
    return rows


def milliseconds(seconds: Sequence[float]) -> Measured:
    return median_of([1e3 * value for value in seconds])


def ratio(seconds: Mapping[str, Sequence[float]], name: str) -> float:
    """How many times as long as the dot product, by the medians."""
    return statistics.median(seconds[name]) / statistics.median(seconds["dot"])


def judge(times: Times) -> tuple[bool | None, Title]:
    """Additive and cosine are slower than dot at every length, formed and by default, by the sign test over turns."""
    english, chinese, outcomes = [], [], []
    for path, path_zh in ((FORMED, "显式算出权重时"), (DEFAULT, "以默认方式运行时")):
        cells = [seconds for (kind, _), seconds in times.items() if kind == path]
        texts = []
        for name in ("additive", "cosine"):
            slower = [is_slower(seconds[name], seconds["dot"]) for seconds in cells]
            ratios = [ratio(seconds, name) for seconds in cells]
            outcomes += slower
            texts.append((slower.count(True), slower.count(False), digits(min(ratios)), digits(max(ratios))))
        (additive, cosine), number = texts, len(cells)
        begin = "With the weights formed" if path == FORMED else "By default"
        english.append(
            f"{begin} additive takes {additive[2]} to {additive[3]} times as long as dot (clearly slower at "
            f"{additive[0]} of {number} lengths, faster at {additive[1]}), cosine {cosine[2]} to {cosine[3]} times "
            f"(clearly slower at {cosine[0]} of {number}, faster at {cosine[1]})."
        )
        chinese.append(
            f"{path_zh}，加性评分函数的用时是点积的 {additive[2]} 到 {additive[3]} 倍（{number} 个长度中 {additive[0]} "
            f"个明显更慢，{additive[1]} 个更快），余弦是 {cosine[2]} 到 {cosine[3]} 倍（{number} 个长度中 {cosine[0]} "
            f"个明显更慢，{cosine[1]} 个更快）。"
        )
    return all_of(*outcomes), Title(en=" ".join(english), zh="".join(chinese))


def draw_figure(figure: Any, *, times: Times) -> None:
    """Time against length, formed and by default."""
    lengths = sorted({length for _, length in times})
    both = panels(figure, CLAIM, 2)
    for axes, path, heading in zip(
        both, (FORMED, DEFAULT), ("All weights formed", "As attention runs by default"), strict=True
    ):
        for name, colour, side in zip(
            NAMES, (BLUE, ORANGE, GREEN), ("right below", "left above", "left above"), strict=True
        ):
            values = [milliseconds(times[path, length][name]) for length in lengths]
            line(axes, lengths, values, colour)
            # in the middle, where dot and cosine are apart
            middle = len(lengths) // 2
            label_point(axes, lengths[middle], values[middle].mean, name, colour, side=side)
        logarithmic(axes, x=lengths, y=True)
        style_axes(axes, title=heading, x="queries and keys", y="milliseconds (bars: middle half)")
    # one scale, so that both panels may be compared
    low, high = (bound([axes.get_ylim()[end] for axes in both]) for end, bound in enumerate((min, max)))
    for axes in both:
        axes.set_ylim(low, high)
