"""How fast does the Transformer decode on a CPU, against MarianMT's `generate` and CTranslate2 in float32?

All three run the same weights, set by hand so that the model copies its source and says <eos> where the source does:
sentences of Multi30k's lengths end at different steps, and everyone must give back exactly the source. Without an <eos>
in the source it never ends, and all write the same number of tokens.
"""

import os
import statistics
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.allocators import ALLOCATORS, ask_elsewhere, turns
from benchmarks.harness import Report, compare, save, show
from benchmarks.peers import available, ctranslate2_translator, marian_generate, our_model, same_marian, versions
from benchmarks.translation_pairs import load_pairs
from benchmarks.translation_training import CONFIG, VOCAB_SIZE
from regard.contracts import Sequences
from regard.decoding import Beam, Greedy, Limit, decode
from regard.models.transformer import Transformer

FIXED_TOKENS = 16
MOST_TOKENS = 64
SHARPNESS = 6.0
PAUSE = 0.3
"""Longer than an OpenMP runtime spins after its last work (200 ms)."""


@torch.no_grad()
def copying_model() -> Transformer:
    """Our model, made to copy: the last layer's cross-attention finds the source's token of the same position.

    Words live in the upper half of the features, where positions hardly move; the first quarter, where they move
    fastest, is what queries and keys compare. All other sub-layers add nothing, at full cost.
    """
    model = our_model(CONFIG).eval()
    size, half, head = CONFIG.hidden_size, CONFIG.hidden_size // 2, CONFIG.hidden_size // CONFIG.num_heads
    words = model.target_embedding.table.weight
    words[:, :half] = 0.0
    # slow positions stay close to 0, 1, 0, 1, ..: words at right angles to that, and of one norm, pass a norm alike
    pairs = words[:, half:].unflatten(1, (2, -1, 2))
    pairs = F.normalize((pairs - pairs.mean(dim=2, keepdim=True)).flatten(1), dim=1)
    words[:, half:] = pairs * (half / size) ** 0.5
    for layer in [*model.encoder, *model.decoder]:
        for name, module in layer.named_modules():
            if name.endswith(("output_proj", "feed_forward.output")):
                silence(module)
    look = model.decoder[-1].cross_attention
    for proj in (look.query_proj, look.key_proj, look.value_proj, look.output_proj):
        silence(proj)
    # a layer norm moves all features by their mean, which those that stand still at 0 tell
    moved = torch.zeros(size)
    moved[-head::2] = 2 / head
    for first in range(0, size, head):
        for proj in (look.query_proj, look.key_proj):
            proj.weight[first : first + head] = SHARPNESS * (torch.eye(head, size) - moved)
    look.value_proj.weight[:half, half:] = torch.eye(half)
    look.output_proj.weight[half:, :half] = 10.0 * torch.eye(half)
    return model


def silence(proj: nn.Linear) -> None:
    """A layer that says nothing."""
    nn.init.zeros_(proj.weight)
    nn.init.zeros_(proj.bias)


def sentences(count: int, *, ends: bool) -> tuple[list[list[int]], str]:
    """Sources of Multi30k's test set; without their <eos> where they are not to end."""
    pairs = load_pairs(vocab_size=VOCAB_SIZE, split="test_2016_flickr", limit=count)
    return [source if ends else source[:-1] for source, _ in pairs.rows], pairs.origin


def ours(model: Transformer, batches: list[list[list[int]]], beam_size: int, most: int) -> Callable[[], Any]:
    """Our search over these batches."""
    search = Greedy() if beam_size == 1 else Beam(size=beam_size)
    sources = [Sequences.of(rows) for rows in batches]
    limit = Limit(factor=0.0, extra=most)
    return lambda: [
        list(found[0].ids) for source in sources for found in decode(model, source, search=search, limit=limit)
    ]


def marian(model: nn.Module, batches: list[list[list[int]]], beam_size: int, most: int) -> Callable[[], Any]:
    """MarianMT's generate."""
    sources = [Sequences.of(rows) for rows in batches]
    given = [(source.ids, source.mask.long()) for source in sources]
    return lambda: [
        row for ids, mask in given for row in marian_generate(model, ids, mask, beam_size=beam_size, max_tokens=most)
    ]


def ctranslate2(model: nn.Module, batches: list[list[list[int]]], beam_size: int, most: int) -> Callable[[], Any]:
    """CTranslate2, with its tokens made beforehand."""
    translate = ctranslate2_translator(model, threads=torch.get_num_threads())
    given = [[[str(token) for token in row] for row in rows] for rows in batches]
    return lambda: [row for rows in given for row in translate(rows, beam_size=beam_size, max_tokens=most)]


def speed(*, beam_size: int, batch_size: int, ends: bool, num_turns: int) -> Report:
    """One question in this process."""
    rows, origin = sentences(max(batch_size, 8), ends=ends)
    batches = [rows[first : first + batch_size] for first in range(0, len(rows), batch_size)]
    model, most = copying_model(), MOST_TOKENS if ends else FIXED_TOKENS
    candidates = {"regard": ours(model, batches, beam_size, most)}
    if available("transformers"):
        candidates["MarianMT generate"] = marian(same_marian(model), batches, beam_size, most)
        if available("ctranslate2"):
            candidates["CTranslate2 float32"] = ctranslate2(same_marian(model), batches, beam_size, most)
    said = {name: run() for name, run in candidates.items()}
    notes: dict[str, Any] = {
        "load of the machine at the start": round(os.getloadavg()[0], 2),
        "data": origin,
        "sentences a turn": len(rows),
        "tokens a sentence": statistics.mean(len(row) for row in said["regard"]),
        "same as regard": {name: agreement(answers, said["regard"]) for name, answers in said.items()},
        "versions": versions("transformers", "ctranslate2"),
        "seed": 0,
    }
    if ends:
        notes["copies of the source"] = agreement(said["regard"], [row[:-1] for row in rows])
    search = "greedy" if beam_size == 1 else f"beam {beam_size}"
    ending = "ending with the source" if ends else f"{FIXED_TOKENS} tokens each"
    question = f"decoding, {search}, batches of {batch_size}, {ending}"
    report = compare(question, candidates, baseline="regard", turns=num_turns, warmup=1, pause=PAUSE, notes=notes)
    tokens = sum(len(row) for row in said["regard"])
    rates = {name: round(tokens / found.median) for name, found in report.timings.items()}
    return replace(report, notes=notes | {"tokens a second": rates})


def agreement(answers: list[list[int]], expected: list[list[int]]) -> str:
    """How many rows are the same."""
    return f"{sum(ours == theirs for ours, theirs in zip(answers, expected, strict=True))} of {len(expected)}"


def questions() -> Iterator[Report]:
    """Greedy and beam 5; batches of 64, 16 and 1; rows that end by themselves, and at one length."""
    for allocator, environment in ALLOCATORS.items():
        for beam_size in (1, 5):
            for batch_size, ends in ((64, True), (16, True), (1, True), (64, False)):
                settings = {"beam_size": beam_size, "batch_size": batch_size, "ends": ends, "num_turns": turns(15)}
                report = ask_elsewhere("translation_decoding.speed", environment, **settings)
                report = replace(report, question=f"{report.question}, {allocator}")
                show(report)
                yield report


def run() -> list[Report]:
    """All of it; the ratios are how much slower than ours a peer is."""
    reports = list(questions())
    save("translation_decoding", *reports)
    return reports


if __name__ == "__main__":
    run()
