"""How fast does the Transformer train on a GPU, against transformers' MarianMT under the same bf16 autocast?

512 rows a batch, of Multi30k's lengths as a shuffle gives them; label smoothing 0.1, fused Adam, equal dropout and
equal weights to begin with. MarianMT runs as its users run it: eager, SDPA, each batch padded to its longest row. Ours
is packed and replayed as one CUDA graph a step, each batch copied over from the host; once as it is, once compiled.
REGARD_BENCHMARK_COMPILED_PEER=1 compiles MarianMT too, as a third.

Where there is no GPU nothing is measured; REGARD_BENCHMARK_TOY=1 runs the whole at toy size on the CPU, unsaved.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import cycle
from typing import Any

import torch
from torch import Tensor

from benchmarks.allocators import turns
from benchmarks.harness import Report, compare, save
from benchmarks.peers import LABEL_SMOOTHING, available, label_smoothed, our_model, same_marian, versions
from benchmarks.translation_pairs import SEED, Pairs, load_pairs, our_batch, padded, real_tokens, to_device
from benchmarks.translation_training import CONFIG, LEARNING_RATE, VOCAB_SIZE, Rows, adam
from regard.contracts import PAD, Batch
from regard.models.translation.transformer import TransformerConfig
from regard.training.cuda_graph import GraphedStep, ShapePadder, round_up
from regard.training.objectives import Objective

STEPS_A_TURN = 8
MULTIPLE, TOKENS = 8, 256
"""Rows and lengths, and tokens, are rounded up to multiples of these."""


@dataclass(frozen=True, kw_only=True)
class Place:
    """Device and size."""

    device: str
    rows: int
    num_turns: int


GPU = Place(device="cuda", rows=512, num_turns=15)
TOY = Place(device="cpu", rows=8, num_turns=2)
LARGE = replace(CONFIG, hidden_size=512, num_layers=6, num_heads=8, feed_forward_size=2048)
SMALL_TOY = replace(CONFIG, hidden_size=32, num_layers=1, feed_forward_size=64)


def one_shape(batches: list[Rows]) -> list[Batch]:
    """Our batches, packed and all padded to one shape."""
    packed_batches = [our_batch(rows, packed=True) for rows in batches]
    sides = [side for batch in packed_batches for side in (batch.source, batch.target)]
    most, least = (round_up(pick(side.ids.shape[0] for side in sides), TOKENS) for pick in (max, min))
    longest = round_up(max(side.max_seqlen for side in sides), MULTIPLE)
    # rows of <pad> for the missing tokens of the smallest batch
    rows = round_up(len(batches[0]) + -(-(most - least + TOKENS) // longest), MULTIPLE)
    fill = ShapePadder(rows=rows, tokens=most, longest=longest)
    return [fill(batch) for batch in packed_batches]


def our_training_step(
    config: TransformerConfig, batches: list[Rows], place: Place, *, compiled: bool
) -> Callable[[], Tensor]:
    """A function that trains on the next batch and gives its loss, still on the device."""
    model = our_model(config).to(place.device).train()
    on_gpu = place.device == "cuda"
    optimizer = adam(model, fused=True)
    objective = Objective(model, label_smoothing=LABEL_SMOOTHING)
    run = torch.compile(objective, dynamic=False) if compiled else objective
    turn = cycle(one_shape(batches))

    def compute(batch: Batch) -> Tensor:
        with torch.autocast(place.device, torch.bfloat16, cache_enabled=False):
            return run(batch)

    def plain(batch: Batch, *, num_tokens: int, learning_rate: float) -> Tensor:
        loss = compute(batch)
        (loss / num_tokens).backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    learn = GraphedStep(compute, model, optimizer) if on_gpu else plain

    def step() -> Tensor:
        batch = next(turn)
        loss = learn(batch, num_tokens=batch.num_tokens, learning_rate=LEARNING_RATE)
        return loss.detach() / batch.num_tokens

    return step


def marian_training_step(
    config: TransformerConfig, batches: list[Rows], place: Place, *, compiled: bool = False
) -> Callable[[], Tensor]:
    """The same for MarianMT."""
    model = same_marian(our_model(config).train()).to(place.device)
    optimizer = adam(model, fused=True)
    packed_batches = [to_device(padded(rows), place.device) for rows in batches]
    turn = cycle([(batch, int((batch["labels"] != PAD).sum())) for batch in packed_batches])
    run = torch.compile(model, dynamic=True) if compiled else model

    def step() -> Tensor:
        next_batch, num_tokens = next(turn)
        inputs = {name: tensor for name, tensor in next_batch.items() if name != "labels"}
        with torch.autocast(place.device, torch.bfloat16):
            loss = label_smoothed(run(**inputs, use_cache=False).logits, next_batch["labels"], num_tokens)
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        return loss.detach()

    return step


def speed(config: TransformerConfig, pairs: Pairs, place: Place) -> Report:
    """Seconds of a few steps of each, and the losses from equal weights."""
    batches = [pairs.rows[first : first + place.rows] for first in range(0, STEPS_A_TURN * place.rows, place.rows)]
    tokens = sum(map(real_tokens, batches))
    steps = {
        "regard, packed, graphed": our_training_step(config, batches, place, compiled=False),
        "regard, packed, compiled, graphed": our_training_step(config, batches, place, compiled=True),
    }
    if available("transformers"):
        steps = {"MarianMT, eager": marian_training_step(config, batches, place), **steps}
        if os.environ.get("REGARD_BENCHMARK_COMPILED_PEER") == "1":
            steps["MarianMT, compiled"] = marian_training_step(config, batches, place, compiled=True)
    losses = {name: [step().item() for _ in range(STEPS_A_TURN)] for name, step in steps.items()}
    notes: dict[str, Any] = {
        "load of the machine at the start": round(os.getloadavg()[0], 2),
        "data": pairs.origin,
        "rows a batch": place.rows,
        "real tokens a turn": tokens,
        "losses of the first steps": losses,
        "dropout": config.dropout,
        "versions": versions("transformers"),
        "seed": SEED,
    }
    candidates = {name: lambda step=step: [step() for _ in range(STEPS_A_TURN)] for name, step in steps.items()}
    sizes = f"{config.hidden_size} wide, {config.num_layers} + {config.num_layers} layers"
    question = f"{STEPS_A_TURN} training steps, {sizes}, bf16"
    baseline = next(iter(candidates))
    report = compare(question, candidates, baseline=baseline, turns=place.num_turns, notes=notes)
    rates = {name: round(tokens / timing.median) for name, timing in report.timings.items()}
    times = {name: round(report.timings[baseline].median / timing.median, 2) for name, timing in report.timings.items()}
    return replace(report, notes=notes | {"tokens a second": rates, f"times {baseline}": times})


def run() -> list[Report]:
    """Both sizes where there is a GPU; the toy on request."""
    if os.environ.get("REGARD_BENCHMARK_TOY") == "1":
        pairs = load_pairs(vocab_size=VOCAB_SIZE, limit=STEPS_A_TURN * TOY.rows)
        return [speed(SMALL_TOY, pairs, TOY)]
    if not torch.cuda.is_available():
        return []
    place = replace(GPU, num_turns=turns(GPU.num_turns))
    pairs = load_pairs(vocab_size=VOCAB_SIZE, limit=STEPS_A_TURN * place.rows)
    reports = [speed(config, pairs, place) for config in (CONFIG, LARGE)]
    save("translation_cuda", *reports)
    return reports


if __name__ == "__main__":
    run()
