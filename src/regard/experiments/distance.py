"""Distance: what a system can use depends on the path between two positions.

The text: a window and a convolution see only what is near, and words far apart meet after many layers; a recurrent
network has to carry a word through every step between; attention connects any two positions in one step. Path lengths:
n/k, n and 1.

Every system predicts, at the end of a sequence, the symbol that was marked somewhere before (copy), or the symbol that
was marked with the key now asked for (recall). Equal parameters, equal steps. The path is measured: the results that a
gradient passes on its way from the output to the input, in the smallest number of layers with which it arrives.
Refuted if the window or the convolution is better than chance beyond its reach, if the recurrent network's accuracy
does not fall with distance, or if that of attention does.

Vaswani et al. 2017, section 4 and table 1. https://arxiv.org/abs/1706.03762
"""

import statistics
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import Title
from regard.experiments.lib.chinese import label
from regard.experiments.lib.decision import all_of, exceeds
from regard.experiments.lib.drawing import (
    BLUE,
    GREEN,
    GREY,
    ORANGE,
    PURPLE,
    label_point,
    line,
    logarithmic,
    panels,
    style_axes,
)
from regard.experiments.lib.finding import Finding, Measured, Row
from regard.experiments.lib.sequence_layers import LAYERS, SequenceModel, path_length
from regard.experiments.lib.sizes import equal_sizes
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.training import fit
from regard.tasks import count_parameters

TITLE = Title(en="Distance", zh="距离")
CLAIM = Title(
    en=(
        "A window and a convolution use nothing beyond their reach, a recurrent network loses what is far back, "
        "and attention uses every distance alike, because its path has length 1 instead of n/k or n."
    ),
    zh=(
        "窗口和卷积用不到其范围以外的内容，循环网络会丢失远处的内容，而注意力在任何距离上都一样好："
        "它的路径长度是 1，而不是 n/k 或 n。"
    ),
)
FULL = {"seeds": 5, "steps": 2000, "distances": (1, 2, 4, 8, 16, 32, 64, 128)}
CHINESE = {
    "path lengths": "路径长度",
    "task": "任务",
    "copy": "复制",
    "recall": "按键查找",
    "MLP": "MLP（窗口）",
    "Copy: the marked symbol": "复制：输出带标记的符号",
    "Recall: the symbol of the key asked for": "按键查找：输出所问的键对应的符号",
    "distance to the symbol": "到该符号的距离",
    "accuracy": "准确率",
}
NUM_LAYERS = {"MLP": 1, "CNN": 4, "RNN": 1, "LSTM": 1, "Attention": 1}
"""The MLP covers a window of its own; four convolutions reach 8 positions back."""

TASKS = {"copy": 1, "recall": 3}
"""Keys of a sequence. With one there is nothing to choose between: the marked symbol is copied."""

MARGIN = 0.1
"""A difference of accuracies that matters."""

COLOURS = dict(zip(LAYERS, (GREY, ORANGE, GREEN, PURPLE, BLUE), strict=True))


@dataclass(frozen=True, kw_only=True)
class MarkedSymbols:
    """Random symbols, of which one per key carries the key as a mark; the last token asks for a key."""

    num_symbols: int
    num_keys: int
    length: int

    @property
    def vocab_size(self) -> int:
        """Symbols, symbols with a mark, and questions."""
        return self.num_symbols * (1 + self.num_keys) + self.num_keys

    def draw(self, count: int, distance: int | None = None) -> tuple[Int[Tensor, "B L"], Int[Tensor, " B"]]:
        """Sequences and the symbol asked for, which lies `distance` before the end, or anywhere."""
        ids = torch.randint(self.num_symbols, (count, self.length))
        # a random order of all positions but the last: its first `num_keys` are different positions
        positions = torch.rand(count, self.length - 1).argsort(dim=1)
        if distance is not None:
            target = self.length - 1 - distance
            # False sorts before True, so the position of the answer comes first and the others keep their order
            positions = positions.gather(1, (positions != target).to(torch.uint8).argsort(dim=1, stable=True))
        positions = positions[:, : self.num_keys]
        keys = torch.rand(count, self.num_keys).argsort(dim=1)
        symbols = torch.randint(self.num_symbols, (count, self.num_keys))
        ids.scatter_(1, positions, self.num_symbols * (1 + keys) + symbols)
        # the question is for the key at the first of the positions
        ids[:, -1] = self.num_symbols * (1 + self.num_keys) + keys[:, 0]
        return ids, symbols[:, 0]


def build(task: MarkedSymbols, name: str, size: int) -> SequenceModel:
    layers = LAYERS[name](size=size, num_layers=NUM_LAYERS[name])
    return SequenceModel(layers, vocab_size=task.vocab_size, num_outputs=task.num_symbols, size=size)


def loss_of(model: SequenceModel, ids: Int[Tensor, "B L"], symbols: Int[Tensor, " B"]) -> Float[Tensor, ""]:
    """Nats per answer, at the last position."""
    return F.cross_entropy(model(ids)[:, -1], symbols)


@torch.no_grad()
def accuracy(model: SequenceModel, task: MarkedSymbols, distance: int, *, count: int) -> float:
    ids, symbols = task.draw(count, distance)
    return (model(ids)[:, -1].argmax(dim=-1) == symbols).double().mean().item()


def train_and_evaluate(
    seed: int, task: MarkedSymbols, name: str, size: int, *, steps: int, distances: Sequence[int]
) -> list[float]:
    """The accuracy at each distance after training with random distances."""
    with seeded(seed):
        model = build(task, name, size)
        fit(model, lambda step: loss_of(model, *task.draw(64)), steps=steps)
        return [accuracy(model, task, distance, count=400) for distance in distances]


Accuracies = Mapping[str, Sequence[Sequence[float]]]
"""By system: a list over seeds of accuracies over distances."""


def run(
    *,
    seed: int = 0,
    seeds: int = 3,
    steps: int = 400,
    size: int = 32,
    num_symbols: int = 8,
    distances: Sequence[int] = (1, 2, 4, 8, 16, 32),
) -> Finding:
    """Train every system on both tasks from `seeds` seeds; the sequences are as long as the largest distance."""
    with seeded(seed):
        paths = {name: [path_length(make, distance) for distance in distances] for name, make in LAYERS.items()}
        # the reach of a system as it is trained, not of the deepest that it could be
        reaches = {
            name: [path_length(make, distance, max_layers=NUM_LAYERS[name]) is not None for distance in distances]
            for name, make in LAYERS.items()
        }
    results: dict[str, Accuracies] = {}
    rows: list[Row] = []
    for task_name, num_keys in TASKS.items():
        task = MarkedSymbols(num_symbols=num_symbols, num_keys=num_keys, length=max(distances) + 1)
        sizes = equal_sizes(partial(build, task), list(LAYERS), reference="LSTM", size=size)
        results[task_name] = {
            name: [
                train_and_evaluate(1000 * seed + index, task, name, own, steps=steps, distances=distances)
                for index in range(seeds)
            ]
            for name, own in sizes.items()
        }
        parameters = {name: count_parameters(build(task, name, own)) for name, own in sizes.items()}
        rows += rows_of(task_name, results[task_name], parameters, paths, distances)
    holds, verdict = judge(results, reaches, chance=1 / num_symbols)
    return Finding(
        name="distance",
        claim=CLAIM,
        rows=tuple(rows),
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, results=results, distances=distances, chance=1 / num_symbols),
    )


def rows_of(
    task: str,
    accuracies: Accuracies,
    parameters: Mapping[str, int],
    paths: Mapping[str, Sequence[int | None]],
    distances: Sequence[int],
) -> list[Row]:
    rows = []
    for name, by_seed in accuracies.items():
        columns = zip(*by_seed, strict=True)
        shares: Row = {str(d): Measured.of(column) for d, column in zip(distances, columns, strict=True)}
        path = " ".join("-" if length is None else str(length) for length in paths[name])
        rows.append({"task": task, "system": name, "parameters": parameters[name], "path lengths": path, **shares})
    return rows


def judge(
    results: Mapping[str, Accuracies],
    reaches: Mapping[str, Sequence[bool]],
    *,
    chance: float,
) -> tuple[bool | None, Title]:
    """Beyond the reach: chance. RNN: a clear fall. Attention: no fall. Open if no task decides."""
    english, chinese, outcomes = [], [], []
    for task, accuracies in results.items():
        ends = {name: [[shares[end] for shares in by_seed] for end in (0, -1)] for name, by_seed in accuracies.items()}
        falls = {name: exceeds(near, far, margin=MARGIN) for name, (near, far) in ends.items()}
        beyond = max(
            (
                mean_at(accuracies[name], index)
                for name in reaches
                for index, reached in enumerate(reaches[name])
                if not reached
            ),
            default=chance,
        )
        blind = beyond < chance + MARGIN
        # an attention that has learned nothing has no fall either
        even = falls["Attention"] is False and statistics.fmean(ends["Attention"][1]) > (1 + chance) / 2
        outcomes.append(all_of(blind, even, falls["RNN"]))
        recurrent, gated, attention = (
            " -> ".join(str(Measured.of(values)) for values in ends[name]) for name in ("RNN", "LSTM", "Attention")
        )
        loses = {True: "a loss", False: "no loss", None: "within the spread"}[falls["RNN"]]
        english.append(
            f"{task.capitalize()}: beyond their reach MLP and CNN have at most {beyond:.2f} (chance {chance:.2f}). "
            f"From the smallest distance to the largest the RNN goes {recurrent}, {loses}; the LSTM {gated}, "
            f"{'a loss' if falls['LSTM'] else 'no clear loss'}; attention {attention}, "
            f"{'alike at every distance' if even else 'not alike at every distance'}."
        )
        recurrent_zh, gated_zh, attention_zh = (str(one).replace("->", "→") for one in (recurrent, gated, attention))
        loses = {True: "有下降", False: "没有下降", None: "差异在误差范围内"}[falls["RNN"]]
        chinese.append(
            f"{CHINESE[task]}：超出范围后 MLP 与 CNN 的准确率至多为 {beyond:.2f}（随机水平 {chance:.2f}）。"
            f"从最小距离到最大距离，RNN 为 {recurrent_zh}，{loses}；"
            f"LSTM 为 {gated_zh}，{'有下降' if falls['LSTM'] else '没有明显下降'}；"
            f"注意力为 {attention_zh}，{'各种距离上都一样好' if even else '并非各种距离上都一样好'}。"
        )
    # open only if no task decides
    holds = False if False in outcomes else True if True in outcomes else None
    return holds, Title(en=" ".join(english), zh="".join(chinese))


def mean_at(by_seed: Sequence[Sequence[float]], index: int) -> float:
    return statistics.fmean(shares[index] for shares in by_seed)


def draw_figure(figure: Any, *, results: Mapping[str, Accuracies], distances: Sequence[int], chance: float) -> None:
    """Accuracy by distance, a panel for each task."""
    titles = ("Copy: the marked symbol", "Recall: the symbol of the key asked for")
    for axes, title, accuracies in zip(panels(figure, CLAIM, 2), titles, results.values(), strict=True):
        for name, by_seed in accuracies.items():
            line(axes, distances, [Measured.of(column) for column in zip(*by_seed, strict=True)], COLOURS[name])
            # an empty line gives the legend an entry without error bars
            axes.plot([], [], color=COLOURS[name], label=label(name))
        axes.axhline(chance, color=GREY, linestyle=":", zorder=0)
        label_point(axes, distances[0], chance, "chance", GREY, side="right below")
        logarithmic(axes, x=distances)
        axes.set_ylim(0, 1.05)
        style_axes(axes, title=title, x="distance to the symbol", y="accuracy")
    # the curves cross, so that labels at their ends would not be clear
    axes.legend(frameon=False, fontsize=9, labelcolor="linecolor", loc="center left", bbox_to_anchor=(1, 0.5))
