"""Kernels by themselves: the best columns of a row, the chunked loss.

Sizes are those that the recipes' models multiply. Each side is the same function of the same tensors.
"""

from collections.abc import Callable
from functools import partial
from typing import Any

import torch
from torch import Tensor

from benchmarks.ablation_batches import SEED
from benchmarks.harness import device_peak_mib, peak_memory_mib
from benchmarks.sides import Case, Duel, Side
from regard.contracts import PAD
from regard.decoding import ops
from regard.kernels import cross_entropy
from regard.kernels.cross_entropy import chunked, chunked_cross_entropy, logits_triton, plain_cross_entropy
from regard.kernels.cross_entropy import chunked as logits

LOSSES = {"multi30k": (3_600, 256, 10_000), "ptb, gpt": (4_096, 384, 10_002), "bahdanau": (3_600, 512, 10_000)}
"""Labels, features, vocabulary of a training batch."""
MEASURED_MEMORY = "multi30k"
"""The case whose memory is measured on a CPU, in three processes."""
BLOCKS = (ops.best_column, ops.best_columns, ops.supports_blocks, ops.split_columns, ops.candidates_of)
SMOOTHING = 0.1
MEMORY = """
from benchmarks.ablation_kernels import loss_tensors, loss_step, plain_cross_entropy, chunked_cross_entropy
tensors = loss_tensors({label!r}, "cpu")
{run}
"""


def work(times: int, run: Callable[[], Any]) -> Side:
    """A side of one function without gradients, repeated because a single call is short."""

    def numbers() -> dict[str, Tensor]:
        with torch.inference_mode():
            return {"result": run()}

    def timed() -> None:
        with torch.inference_mode():
            for _ in range(times):
                run()

    return Side(run=timed, numbers=numbers)


def top_duel(num_rows: int, count: int) -> Duel:
    """The best columns of a vocabulary's log-probabilities."""
    torch.manual_seed(SEED)
    values = torch.randn(num_rows, 9_997).log_softmax(dim=1)
    times = max(2_000 // num_rows, 4)
    if count == 1:
        plain, blocks = work(times, lambda: values.argmax(dim=1)), work(times, lambda: ops.best_column(values))
        return Duel(sides={"torch.argmax": plain, "by blocks": blocks}, tolerance=0.0)
    sides = {
        "torch.topk": work(times, lambda: values.topk(count, dim=1).values),
        "by blocks": work(times, lambda: ops.best_columns(values, count)[0]),
    }
    return Duel(sides=sides, tolerance=0.0, notes={"calls a turn": times, "seed": SEED})


def loss_tensors(label: str, device: str) -> tuple[list[Tensor], Tensor]:
    """Features, weight and bias, and labels of which every twentieth is padding."""
    torch.manual_seed(SEED)
    num_labels, size, vocab_size = LOSSES[label]
    dtype = torch.float32 if device == "cpu" else torch.bfloat16
    tensors = [torch.randn(num_labels, size), torch.randn(vocab_size, size) * size**-0.5, torch.zeros(vocab_size)]
    labels = torch.randint(1, vocab_size, (num_labels,))
    labels[::20] = PAD
    return [tensor.to(device, dtype).requires_grad_() for tensor in tensors], labels.to(device)


def loss_step(loss: Callable[..., Tensor], tensors: list[Tensor], labels: Tensor) -> dict[str, Tensor]:
    """The loss and its gradients."""
    value = loss(*tensors, labels, ignored=PAD, label_smoothing=SMOOTHING)
    gradients = torch.autograd.grad(value, tensors)
    return {"loss": value.detach(), **dict(zip("xwb", gradients, strict=True))}


def loss_duel(label: str, device: str) -> Duel:
    """All logits at once, and some tokens at a time, without the readout's optimizer."""
    tensors = loss_tensors(label, device)
    losses = {"readout, then F.cross_entropy": plain_cross_entropy, "chunked": chunked_cross_entropy}
    runs = {name: partial(loss_step, loss, *tensors) for name, loss in losses.items()}
    if device == "cuda":
        memory = {name: device_peak_mib(run) for name, run in runs.items()}
    elif label != MEASURED_MEMORY:
        memory = {}
    else:
        # a separate process each; without a loss its memory is that of torch and the tensors
        bare = peak_memory_mib(MEMORY.format(label=label, run=""))
        programs = {name: f"loss_step({loss.__name__}, *tensors)" for name, loss in losses.items()}
        memory = {name: peak_memory_mib(MEMORY.format(label=label, run=run)) - bare for name, run in programs.items()}
    notes = {
        "labels, features, vocabulary": LOSSES[label],
        "peak memory, MiB": {name: round(value) for name, value in memory.items()},
        "seed": SEED,
    }
    sides = {name: Side(run=run) for name, run in runs.items()}
    return Duel(sides=sides, tolerance=1e-2, notes=notes)


def cpu_cases() -> list[Case]:
    """The best columns, which have a separate implementation on a CPU only."""
    return [
        Case(
            group="best columns", name=f"{'the best' if count == 1 else f'{count} best'} of 9,997, {num_rows} rows",
            build=partial(top_duel, num_rows, count), own=BLOCKS, share=0.6,
        )
        for count in (1, 5)
        for num_rows in (1, 5, 16, 80, 320)
    ]  # fmt: skip


def cases(device: str) -> list[Case]:
    """All cases of a device."""
    losses = [
        Case(
            group="chunked cross-entropy", name=f"{label}, {'CPU' if device == 'cpu' else 'GPU, bfloat16'}",
            build=partial(loss_duel, label, device), own=(chunked, logits, logits_triton, cross_entropy),
            share=15.0 if device == "cpu" and label == MEASURED_MEMORY else 4.0,
        )
        for label in LOSSES
    ]  # fmt: skip
    return losses + (cpu_cases() if device == "cpu" else [])
