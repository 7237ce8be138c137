"""How fast does the Transformer train on a CPU, against transformers' MarianMT with the same weights and batches?

Joey NMT's Transformer, of the same sizes but with weights of its own, is measured for its speed only.

256 wide, 3 + 3 layers, 4 heads, feed-forward 1024, one table of 10,000 tokens; batches of about 4,000 source and target
tokens, in the order of a shuffle ("mixed") and with rows of like length together ("bucketed"). Label smoothing 0.1 and
Adam on both sides, equal dropout. Tokens a second count real tokens only.

glibc hands large temporaries back to the system after every operation unless its thresholds are raised, which costs
both sides a good part of their time; each question is asked both ways, in a process of its own.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import replace
from functools import partial
from itertools import cycle
from typing import Any

import torch
from torch import nn

from benchmarks.allocators import ALLOCATORS, ask_elsewhere, turns
from benchmarks.harness import Report, compare, save, show
from benchmarks.joey import joey_steps, joey_transformer
from benchmarks.peers import LABEL_SMOOTHING, available, label_smoothed, our_model, same_marian, versions
from benchmarks.translation_pairs import batches_of, load_pairs, our_batch, padded, padding_share, real_tokens
from regard.models.translation.transformer import Transformer, TransformerConfig

VOCAB_SIZE = 10_000
TOKENS = 4_000
CURVE_STEPS = 20
LEARNING_RATE = 3e-4
CONFIG = TransformerConfig(
    source_vocab_size=VOCAB_SIZE,
    target_vocab_size=VOCAB_SIZE,
    hidden_size=256,
    num_layers=3,
    num_heads=4,
    feed_forward_size=1024,
    dropout=0.1,
)

Rows = list[tuple[list[int], list[int]]]


def adam(model: nn.Module, *, fused: bool) -> torch.optim.Adam:
    """One optimiser for all; without `fused` it is the default of torch.optim.Adam on a CPU."""
    return torch.optim.Adam(model.parameters(), lr=LEARNING_RATE, betas=(0.9, 0.98), eps=1e-9, fused=fused or None)


def our_steps(model: Transformer, batches: list[Rows], *, bf16: bool) -> Callable[[], float]:
    """A function that trains on the next packed batch and gives its loss."""
    optimizer = adam(model.train(), fused=True)
    turn = cycle([our_batch(rows, packed=True) for rows in batches])

    def step() -> float:
        batch = next(turn)
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            features = model.features(batch.source, batch.target).features
            loss = model.readout.loss(features, batch.labels, label_smoothing=LABEL_SMOOTHING) / batch.num_tokens
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def marian_steps(model: nn.Module, batches: list[Rows], *, fused: bool, bf16: bool = False) -> Callable[[], float]:
    """The same for MarianMT on padded batches."""
    optimizer = adam(model.train(), fused=fused)
    turn = cycle([padded(rows) for rows in batches])

    def step() -> float:
        batch = dict(next(turn))
        labels = batch.pop("labels")
        with torch.autocast("cpu", torch.bfloat16, enabled=bf16):
            logits = model(**batch, use_cache=False).logits
        loss = label_smoothed(logits.float(), labels, int(batch["decoder_attention_mask"].sum()))
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.item()

    return step


def contestants(config: TransformerConfig, batches: list[Rows]) -> dict[str, Callable[[], float]]:
    """All candidates, with the same initial weights."""
    ours = {
        "regard, fp32": our_steps(our_model(config), batches, bf16=False),
        "regard, bf16": our_steps(our_model(config), batches, bf16=True),
    }
    if available("joeynmt"):
        peer = joey_transformer(config, label_smoothing=LABEL_SMOOTHING)
        ours = {"Joey NMT, fp32, Adam fused": joey_steps(peer, batches, partial(adam, fused=True)), **ours}
    if not available("transformers"):
        return ours
    return {
        "MarianMT, fp32, Adam fused": marian_steps(same_marian(our_model(config)), batches, fused=True),
        "MarianMT, fp32, Adam": marian_steps(same_marian(our_model(config)), batches, fused=False),
        "MarianMT, bf16, Adam fused": marian_steps(same_marian(our_model(config)), batches, fused=True, bf16=True),
        **ours,
    }


def curves(batches: list[Rows], steps: int) -> dict[str, list[float]]:
    """Losses of the first steps without dropout, which must be equal."""
    racing = contestants(replace(CONFIG, dropout=0.0), batches)
    for name in ("MarianMT, fp32, Adam", "Joey NMT, fp32, Adam fused"):
        # the first trains as its fused form does, the second has other initial weights
        racing.pop(name, None)
    return {name: [round(step(), 5) for _ in range(steps)] for name, step in racing.items()}


def speed(*, bucketed: bool, num_turns: int, with_curves: bool) -> Report:
    """One measurement in this process."""
    pairs = load_pairs(vocab_size=VOCAB_SIZE)
    batches = batches_of(pairs, tokens=TOKENS, count=8, bucketed=bucketed)
    tokens = sum(map(real_tokens, batches)) / len(batches)
    candidates = contestants(CONFIG, batches)
    baseline = next(iter(candidates))
    order = "bucketed by length" if bucketed else "mixed lengths"
    notes: dict[str, Any] = {
        "load of the machine at the start": round(os.getloadavg()[0], 2),
        "data": pairs.origin,
        "real tokens a batch": round(tokens),
        "padding of the padded batches": round(sum(map(padding_share, batches)) / len(batches), 3),
        "seed": 0,
        "dropout": CONFIG.dropout,
        "versions": versions("transformers", "joeynmt"),
    }
    if with_curves:
        notes["losses without dropout, equal weights"] = curves(batches, CURVE_STEPS)
    report = compare(f"a training step, {order}", candidates, baseline=baseline, turns=num_turns, notes=notes)
    rates = {name: round(tokens / timing.median) for name, timing in report.timings.items()}
    speedups = {
        name: round(report.timings[baseline].median / timing.median, 2) for name, timing in report.timings.items()
    }
    return replace(report, notes=notes | {"tokens a second": rates, f"times {baseline}": speedups})


def questions() -> Iterator[Report]:
    """Every allocator and order of batches; the loss curves once."""
    for allocator, environment in ALLOCATORS.items():
        for bucketed in (False, True):
            first = not environment and not bucketed
            settings = {"bucketed": bucketed, "num_turns": turns(15), "with_curves": first}
            report = ask_elsewhere("translation_training.speed", environment, **settings)
            report = replace(report, question=f"{report.question}, {allocator}")
            show(report)
            yield report


def run() -> list[Report]:
    """All measurements; about ten minutes on two cores."""
    reports = list(questions())
    save("translation_training", *reports)
    return reports


if __name__ == "__main__":
    run()
