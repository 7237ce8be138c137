"""How fast does a GPT-2 continue a text on a CPU, against transformers' `generate`?

Both run the same random weights in float32, greedily, with a cache: a prompt of 32 random tokens a row, then the same
number of new tokens, nobody ending early. They take turns in one process, as often as REGARD_BENCHMARK_TURNS says.
"""

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

import torch

from benchmarks.allocators import turns
from benchmarks.gpt_peer import same_gpt2
from benchmarks.harness import Report, compare, save
from benchmarks.peers import available, versions
from regard.contracts import PAD, UNK
from regard.decoding import Generation, generate
from regard.fused import fuse
from regard.models.language_modeling.gpt import GPT, GPTConfig

SEED = 0
SMALL = GPTConfig(hidden_size=384, num_layers=6, num_heads=6, feed_forward_size=1536)
LARGE = GPTConfig()
PAUSE = 0.3
"""Longer than an OpenMP runtime spins after its last work (200 ms)."""
Rows = list[list[int]]


@dataclass(frozen=True, kw_only=True)
class Place:
    """Device, precision and amount."""

    device: str = "cpu"
    dtype: torch.dtype = torch.float32
    prompt: int = 32
    new: int = 128
    num_turns: int = 5
    pause: float = PAUSE


def make_model(config: GPTConfig, place: Place) -> GPT:
    """Ours, with random weights larger than the initial ones, so that it does not repeat one token."""
    torch.manual_seed(SEED)
    model = GPT(config)
    with torch.no_grad():
        for layer in model.layers:
            for part in (layer.attention.output_proj, layer.feed_forward.output):
                part.weight.mul_(10.0)
    return model.to(device=place.device, dtype=place.dtype).eval()


def ours(model: GPT, prompts: Rows, place: Place) -> Callable[[], Rows]:
    """Our generate."""
    fused = fuse(model)
    options = Generation(max_tokens=place.new, temperature=0.0, stop_ids=())
    return lambda: [list(one.ids) for one in generate(fused, prompts, options, return_log_probs=False)]


def theirs(model: Any, prompts: Rows, place: Place) -> Callable[[], Rows]:
    """Transformers' generate, greedy with its cache."""
    ids = torch.tensor(prompts, device=place.device)
    mask = torch.ones_like(ids)
    model.generation_config.update(eos_token_id=None, pad_token_id=PAD)

    def run() -> Rows:
        generated = model.generate(
            ids,
            attention_mask=mask,
            do_sample=False,
            use_cache=True,
            min_new_tokens=place.new,
            max_new_tokens=place.new,
            pad_token_id=PAD,
            eos_token_id=None,
        )
        new_tokens: Rows = generated[:, ids.shape[1] :].tolist()
        return new_tokens

    return run


def speed(config: GPTConfig, *, batch_size: int, place: Place) -> Report:
    """Seconds of a batch's texts for each, and whether both give equal tokens."""
    model = make_model(config, place)
    torch.manual_seed(SEED)
    prompts: Rows = torch.randint(UNK + 1, config.vocab_size, (batch_size, place.prompt)).tolist()
    candidates = {"regard": ours(model, prompts, place)}
    if available("transformers"):
        candidates["transformers generate"] = theirs(same_gpt2(model), prompts, place)
    outputs = {name: run() for name, run in candidates.items()}
    notes: dict[str, Any] = {
        "load of the machine at the start": round(os.getloadavg()[0], 2),
        "prompt and new tokens a row": [place.prompt, place.new],
        "same tokens as regard": {name: agreement(rows, outputs["regard"]) for name, rows in outputs.items()},
        "different tokens said": len({token for row in outputs["regard"] for token in row}),
        "versions": versions("transformers"),
        "seed": SEED,
    }
    precision = str(place.dtype).removeprefix("torch.")
    sizes = f"{config.num_layers} x {config.hidden_size}, vocabulary {config.vocab_size}"
    question = f"generation, {sizes}, batch {batch_size}, {precision}, {place.device}"
    # both are warm: each has run once
    report = compare(
        question, candidates, baseline="regard", turns=place.num_turns, warmup=0, pause=place.pause, notes=notes
    )
    tokens = batch_size * place.new
    rates = {name: round(tokens / timing.median, 1) for name, timing in report.timings.items()}
    times = {name: round(ratio, 2) for name, ratio in report.ratios.items()}
    print("  tokens a second:", rates, " regard is faster by:", times)
    return replace(report, notes=notes | {"tokens a second": rates, "regard is faster by": times})


def agreement(rows: Rows, expected: Rows) -> str:
    """How many tokens, row by row from the left, until the first that differs."""
    same = sum(
        next((place for place, pair in enumerate(zip(row, other, strict=True)) if pair[0] != pair[1]), len(other))
        for row, other in zip(rows, expected, strict=True)
    )
    return f"{same} of {sum(map(len, expected))}"


def run() -> list[Report]:
    """Both sizes, one text and sixteen."""
    place = Place(num_turns=turns(5))
    reports: list[Report] = []
    for config in (SMALL, LARGE):
        for batch_size in (1, 16):
            reports.append(speed(config, batch_size=batch_size, place=place))
            save("generation", *reports)
    return reports


if __name__ == "__main__":
    run()
