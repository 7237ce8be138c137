"""How fast do the recurrent attention models train, against a textbook loop and Joey NMT's RNN?

Bahdanau, Luong and LSTMN with the sizes of their Multi30k recipes; batches of about 4,000 source and target tokens, in
the order of a shuffle ("mixed lengths", as Joey NMT 2.3 trains) and with rows of like length together ("bucketed", as
ours are); label smoothing 0.1. The plain loop is the same model with everything inside the loop: embedding, attention,
update, readout; then cross-entropy over all logits. Joey NMT's RNN has an encoder of both directions; against Bahdanau
it has GRUs of the same size, against the others LSTMs whose two directions together are as wide as our one. Adam
(fused) is part of a step.

On a GPU there is no Joey: the plain loop, our eager step, and our step captured as one CUDA graph, forward and backward
on one batch, without an optimiser. REGARD_BENCHMARK_TURNS sets how often each takes its turn.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle, product
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from benchmarks.allocators import turns
from benchmarks.harness import Report, compare, save
from benchmarks.joey import JoeyRNN, joey_recurrent, joey_steps
from benchmarks.peers import LABEL_SMOOTHING, available, versions
from benchmarks.translation_pairs import SEED, Pairs, batches_of, load_pairs, our_batch, padding_share, real_tokens
from regard.contracts import PAD, Batch, map_tensors
from regard.fused import fuse
from regard.layers import unroll
from regard.models.translation import TRANSLATION_MODELS
from regard.recipes.multi30k import SIZES
from regard.training import Objective

VOCAB_SIZE = 10_000
TOKENS = 4_000
NUM_BATCHES = 8
LEARNING_RATE = 3e-4
WARM_UP = 3

Rows = list[tuple[list[int], list[int]]]
Loss = Callable[[nn.Module, Batch], Tensor]


@dataclass(frozen=True)
class Question:
    """One of our models, and the nearest model of Joey NMT."""

    model: str
    cell: str
    attention: str
    both_ways: bool
    num_layers: int = 1

    def build(self) -> Any:
        """Ours, from the seed."""
        torch.manual_seed(SEED)
        sizes = {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE}
        return TRANSLATION_MODELS[self.model].build(TRANSLATION_MODELS[self.model].config(**SIZES[self.model], **sizes))

    def peer(self) -> nn.Module:
        """Theirs, of equal sizes and dropout."""
        ours = SIZES[self.model]
        sizes = JoeyRNN(
            vocab_size=VOCAB_SIZE,
            embedding_size=ours["embedding_size"],
            hidden_size=ours["hidden_size"],
            encoder_size=ours["hidden_size"] if self.both_ways else ours["hidden_size"] // 2,
            num_layers=self.num_layers,
            cell=self.cell,
            attention=self.attention,
            dropout=ours["dropout"],
        )
        return joey_recurrent(sizes, label_smoothing=LABEL_SMOOTHING)


QUESTIONS = (
    Question("bahdanau", "gru", "bahdanau", both_ways=True),
    Question("luong", "lstm", "luong", both_ways=False, num_layers=2),
    Question("lstmn", "lstm", "bahdanau", both_ways=False),
)


def adam(model: nn.Module) -> torch.optim.Adam:
    """One optimiser for all."""
    return torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, fused=True)


def textbook_loss(model: Any, batch: Batch) -> Tensor:
    """Everything step by step, then the loss over all logits."""
    encoded = model.encode(batch.source)
    logits = unroll(model.step, batch.target.ids, state=model.start(encoded), encoded=encoded)
    labels = batch.labels.flatten()
    return F.cross_entropy(
        logits.flatten(0, 1), labels, ignore_index=PAD, label_smoothing=LABEL_SMOOTHING, reduction="sum"
    )


def our_loss(model: Any, batch: Batch) -> Tensor:
    """As training computes it by default: through `regard.fused.fuse`, which runs fused loops on CUDA devices."""
    loss: Tensor = Objective(model, label_smoothing=LABEL_SMOOTHING, fuse=fuse)(batch)
    return loss


def steps_of(model: nn.Module, batches: list[Rows], loss_of: Loss, *, bf16: bool = False) -> Callable[[], float]:
    """A function that trains on the next batch and gives its loss a token."""
    optimizer = adam(model.train())
    turn = cycle([our_batch(rows, packed=False) for rows in batches])

    def step() -> float:
        batch = next(turn)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            loss = loss_of(model, batch) / batch.num_tokens
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def cpu_report(question: Question, pairs: Pairs, *, bucketed: bool) -> Report:
    """A training step of each, alternately."""
    batches = batches_of(pairs, tokens=TOKENS, count=NUM_BATCHES, bucketed=bucketed)
    tokens = sum(map(real_tokens, batches)) / len(batches)
    candidates = {
        "plain loop": steps_of(question.build(), batches, textbook_loss),
        "regard": steps_of(question.build(), batches, our_loss),
        "regard, bf16": steps_of(question.build(), batches, our_loss, bf16=True),
    }
    if available("joeynmt"):
        candidates = {"Joey NMT": joey_steps(question.peer(), batches, adam), **candidates}
    notes: dict[str, Any] = {
        "load of the machine at the start": round(os.getloadavg()[0], 2),
        "data": pairs.origin,
        "real tokens a batch": round(tokens),
        "padding of the batches": round(sum(map(padding_share, batches)) / len(batches), 3),
        "sizes": SIZES[question.model],
        "parameters": sum(part.numel() for part in question.build().parameters()),
        "versions": versions("joeynmt"),
        "seed": SEED,
    }
    # every candidate runs every batch equally often
    num_turns = NUM_BATCHES * -(-turns(16) // NUM_BATCHES)
    title = f"a training step of {question.model}, {'bucketed by length' if bucketed else 'mixed lengths'}"
    return with_speedups(compare(title, candidates, baseline=next(iter(candidates)), turns=num_turns, notes=notes))


def with_speedups(report: Report) -> Report:
    """Add the speed of each candidate relative to the baseline."""
    first = report.timings[report.baseline].median
    times = {name: round(first / timing.median, 2) for name, timing in report.timings.items()}
    return replace(report, notes=report.notes | {f"times {report.baseline}": times})


def run_once(model: nn.Module, batch: Batch, loss_of: Loss) -> Callable[[], Tensor]:
    """Forward and backward, with new gradients."""

    def run() -> Tensor:
        model.zero_grad(set_to_none=True)
        loss = loss_of(model, batch)
        loss.backward()
        return loss.detach()

    return run


def captured(run: Callable[[], Tensor]) -> Callable[[], None]:
    """The same as one CUDA graph, on a stream where it was warmed up."""
    stream = torch.cuda.Stream()
    stream.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(stream):
        for _ in range(WARM_UP):
            run()
    torch.cuda.current_stream().wait_stream(stream)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, stream=stream):
        run()
    return graph.replay


def cuda_reports(num_turns: int = 30) -> list[Report]:
    """Every model on one batch: plain eager loop, our eager step, our step as one CUDA graph."""
    pairs = load_pairs(vocab_size=VOCAB_SIZE)
    rows = batches_of(pairs, tokens=TOKENS, count=1, bucketed=True)[0]
    batch = map_tensors(lambda tensor: tensor.cuda(), our_batch(rows, packed=False))
    reports = []
    for question in QUESTIONS:
        models = [question.build().cuda().train() for _ in range(3)]
        plain, ours, whole = (
            run_once(model, batch, loss)
            for model, loss in zip(models, (textbook_loss, our_loss, our_loss), strict=True)
        )
        candidates = {"plain loop": plain, "regard": ours, "regard, captured": captured(whole)}
        notes = {"data": pairs.origin, "rows": len(rows), "real tokens": real_tokens(rows), "seed": SEED}
        title = f"forward and backward of {question.model}, one batch on a GPU"
        reports.append(
            with_speedups(compare(title, candidates, baseline="plain loop", turns=num_turns, warmup=5, notes=notes))
        )
    return reports


def run() -> list[Report]:
    """On the GPU where there is one, else on the CPU; about twenty minutes on two cores."""
    if torch.cuda.is_available():
        reports = cuda_reports()
        save("recurrent_cuda", *reports)
        return reports
    pairs = load_pairs(vocab_size=VOCAB_SIZE)
    reports = []
    for question, bucketed in product(QUESTIONS, (False, True)):
        reports.append(cpu_report(question, pairs, bucketed=bucketed))
        save("recurrent", *reports)
    return reports


if __name__ == "__main__":
    run()
