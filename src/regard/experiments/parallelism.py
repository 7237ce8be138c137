"""Parallelism: a recurrent network cannot train on all positions of a sequence at once.

The text: each state of a recurrent network needs the one before it, so that training is serial and slow on long
sequences; convolution and attention process all positions in parallel.

The time of a training step (forward and backward) is measured with a fixed number of tokens: as sequences become
longer, their number falls. What is parallel takes the same time however the tokens are cut into sequences, apart from
the pairs of positions that attention scores; what is serial computes fewer sequences side by side in more steps.
The claim is about the growth of the time per token with the length: the exponent of a power law. Refuted if the
recurrent networks' time does not grow, or if that of convolution or attention grows as fast.

Systems have equal parameters; runs are interleaved, so that what disturbs the machine meets all of them alike.
"""

import statistics
import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import torch
from torch import Tensor

from regard.contracts import Title
from regard.experiments.lib.chinese import LABELS
from regard.experiments.lib.decision import all_of, exceeds
from regard.experiments.lib.drawing import (
    BLUE,
    GREEN,
    ORANGE,
    PURPLE,
    label_point,
    line,
    logarithmic,
    panels,
    style_axes,
)
from regard.experiments.lib.finding import Finding, Measured, Row, slope
from regard.experiments.lib.sequence_layers import LAYERS, SequenceLayers
from regard.experiments.lib.sizes import equal_sizes
from regard.experiments.lib.small_transformer import seeded
from regard.tasks import count_parameters

TITLE = Title(en="Parallel training", zh="并行训练")
CLAIM = Title(
    en=(
        "A recurrent network trains position after position: at equal numbers of tokens its time per token grows with "
        "the length of the sequences, and faster than that of a convolution or attention, which work in parallel."
    ),
    zh="循环网络只能逐位置训练：词元总数相同时，它每个词元的训练时间随序列长度增长，而且比可以并行的卷积和注意力增长得更快。",
)
FULL = {"rounds": 10, "repeats": 5, "size": 128, "tokens": 16384, "lengths": (16, 64, 256, 1024, 4096, 16384)}
CHINESE = {
    "exponent": "指数",
    "Training time per token (bars: spread)": "每个词元的训练时间（误差棒：标准差）",
    "length of the sequences": "序列长度",
    "microseconds per token": "微秒/词元",
}
SYSTEMS = {"RNN": GREEN, "LSTM": PURPLE, "CNN": ORANGE, "Attention": BLUE}
SERIAL, PARALLEL = ("RNN", "LSTM"), ("CNN", "Attention")
MARGIN = 0.05
"""A difference of exponents that matters."""


def training_step(layers: SequenceLayers, inputs: Tensor) -> None:
    """Forward and backward, as a training step has them; the optimizer does not depend on the length."""
    layers.zero_grad()
    layers(inputs).square().mean().backward()


def measure(layers: SequenceLayers, inputs: Tensor) -> float:
    """Microseconds per token of one training step."""
    start = time.perf_counter()
    training_step(layers, inputs)
    if inputs.is_cuda:
        torch.cuda.synchronize()
    return 1e6 * (time.perf_counter() - start) / (inputs.shape[0] * inputs.shape[1])


Times = Mapping[str, Sequence[Sequence[float]]]
"""By system: a list over rounds of microseconds per token, by length."""


def run(
    *,
    seed: int = 0,
    rounds: int = 5,
    repeats: int = 3,
    size: int = 64,
    tokens: int = 4096,
    lengths: Sequence[int] = (16, 64, 256, 1024, 4096),
    device: str = "cpu",
) -> Finding:
    """Measure every system at every length in `rounds` rounds, each the median of `repeats` interleaved runs."""
    sizes = equal_sizes(build, list(SYSTEMS), reference="LSTM", size=size)
    with seeded(seed):
        # the inputs have the size of the layers
        layers = {name: build(name, own).to(device) for name, own in sizes.items()}
        inputs = {
            (name, length): torch.randn(max(tokens // length, 1), length, sizes[name]).to(device)
            for name in SYSTEMS
            for length in lengths
        }
    for (name, _), one in inputs.items():
        # the first call of a shape allocates memory and chooses kernels
        measure(layers[name], one)
    times: dict[str, list[list[float]]] = {name: [] for name in SYSTEMS}
    for _ in range(rounds):
        passes = [
            {(name, length): measure(layers[name], one) for (name, length), one in inputs.items()}
            for _ in range(repeats)
        ]
        for name, by_round in times.items():
            by_round.append([statistics.median(one[name, length] for one in passes) for length in lengths])
    rows = rows_of(times, lengths, {name: count_parameters(module) for name, module in layers.items()})
    holds, verdict = judge(times, lengths, machine=device.upper(), num_threads=torch.get_num_threads())
    return Finding(
        name="parallelism",
        claim=CLAIM,
        rows=rows,
        verdict=verdict,
        holds=holds,
        draw=partial(draw_figure, times=times, lengths=lengths),
    )


def build(name: str, size: int) -> SequenceLayers:
    """One layer of a system."""
    return LAYERS[name](size=size, num_layers=1)


def exponents_of(times: Times, lengths: Sequence[int]) -> dict[str, list[float]]:
    """The growth of each system in each round, as the exponent of a power law."""
    return {name: [slope(lengths, values) for values in by_round] for name, by_round in times.items()}


def rows_of(times: Times, lengths: Sequence[int], parameters: Mapping[str, int]) -> tuple[Row, ...]:
    rows: list[Row] = []
    for name, exponents in exponents_of(times, lengths).items():
        columns = zip(*times[name], strict=True)
        values: Row = {f"{length}: μs": Measured.of(column) for length, column in zip(lengths, columns, strict=True)}
        rows.append({"system": name, "parameters": parameters[name], **values, "exponent": Measured.of(exponents)})
    return tuple(rows)


def judge(times: Times, lengths: Sequence[int], *, machine: str, num_threads: int) -> tuple[bool | None, Title]:
    """Both recurrent networks grow, and each faster than each parallel system."""
    exponents = exponents_of(times, lengths)
    grows = {name: exceeds(exponents[name], [0.0] * len(exponents[name]), margin=MARGIN) for name in SERIAL}
    faster = {
        (serial, parallel): exceeds(exponents[serial], exponents[parallel], margin=MARGIN)
        for serial in SERIAL
        for parallel in PARALLEL
    }
    against = [pair for pair, fact in faster.items() if fact is not True]
    words = {True: "grows", False: "does not grow", None: "may grow"}
    english = (
        f"Exponents of the time per token from length {lengths[0]} to {lengths[-1]} "
        f"({machine}, threads: {num_threads}): "
        + ", ".join(f"{name} {Measured.of(values)}" for name, values in exponents.items())
        + ". The time of the "
        + " and of the ".join(f"{name} {words[fact]}" for name, fact in grows.items())
        + "; "
        + (
            "growth not clearly faster: " + ", ".join(f"{serial} than {parallel}" for serial, parallel in against)
            if against
            else "the growth of both is faster than that of CNN and Attention"
        )
        + "."
    )
    words = {True: "增长", False: "不增长", None: "可能增长"}
    chinese = (
        f"长度从 {lengths[0]} 到 {lengths[-1]}，每个词元所用时间的增长指数（{machine}，线程数 {num_threads}）："
        + "，".join(f"{LABELS.get(name, name)} {Measured.of(values)}" for name, values in exponents.items())
        + "。"
        + "，".join(f"{name} 的时间{words[fact]}" for name, fact in grows.items())
        + "；"
        + (
            "，".join(f"{serial} 的增长不明显快于 {LABELS.get(parallel, parallel)}" for serial, parallel in against)
            if against
            else "两者的增长都快于 CNN 与注意力"
        )
        + "。"
    )
    return all_of(*grows.values(), *faster.values()), Title(en=english, zh=chinese)


def draw_figure(figure: Any, *, times: Times, lengths: Sequence[int]) -> None:
    """Time per token by length, on logarithmic axes, where a power law is a straight line."""
    (axes,) = panels(figure, CLAIM, 1)
    for name, by_round in times.items():
        values = [Measured.of(column) for column in zip(*by_round, strict=True)]
        line(axes, lengths, values, SYSTEMS[name])
        label_point(axes, lengths[-1], values[-1].mean, name, SYSTEMS[name], side="right")
    logarithmic(axes, x=lengths, y=True)
    style_axes(
        axes, title="Training time per token (bars: spread)", x="length of the sequences", y="microseconds per token"
    )
