"""Decoding: steps in fewer calls, and a step as one CUDA graph, against the readable path.

The Transformer of the Multi30k recipe, beam 5 and greedy, as `regard translate` searches; every source is answered with
as many tokens as it has. GPT of the recipes `text` and `ptb`, 100 tokens behind prompts of 16, as `regard generate` has
it (temperature 1, seed 0, log-probabilities). Random weights, larger than those a training begins with, so that no two
tokens are equally good; float32.
"""

from collections.abc import Callable
from dataclasses import replace
from functools import cache, partial
from typing import Any

import numpy as np
import torch
from torch import nn

from benchmarks.ablation_batches import SEED, VOCAB_SIZE, pair_lengths
from benchmarks.sides import Case, Duel, Side
from regard import fused
from regard.contracts import EOS, UNK, LengthLimit, PaddedTokens
from regard.decoding import Beam, Generation, Greedy, decode, generate
from regard.fused import decode_graph, transformer_layers
from regard.fused import gpt as fused_gpt
from regard.fused import transformer as fused_transformer
from regard.models.language_modeling import LANGUAGE_MODELS, gpt
from regard.models.translation import TRANSLATION_MODELS, transformer
from regard.recipes import ptb, text
from regard.recipes.multi30k import SIZES

LIMIT = LengthLimit(factor=1.0, extra=0)
PROMPT, NEW = 16, 100
SECONDS = {1: 15.0, 16: 8.0, 64: 25.0}
GPT_SECONDS = {"text": 6.0, "ptb": 15.0}
"""Seconds of a case on two CPU cores, approximately."""
LARGER = 6.0
"""Factor by which the last weights of every sub-layer are larger than the initial ones."""
TOLERANCE = 0.1
"""Share of tokens that may differ: sums in another order sometimes give another best token."""

Calls = tuple[tuple[Any, ...], tuple[Any, ...]]
"""Functions that must be called, and those that must not."""

TRANSFORMER = (fused_transformer, transformer_layers)
GPT = (fused_gpt, transformer_layers, decode_graph)
TRANSFORMER_STEP = ((fused_transformer, "decoder_layer_step"),)
GPT_STEP = ((fused_gpt, "causal_layer_outputs"),)
GRAPH = ((decode_graph.GraphSteps, "__call__"),)


@torch.no_grad()
def larger(model: nn.Module) -> nn.Module:
    """The same model with larger outputs of its sub-layers."""
    for name, module in model.named_modules():
        if name.endswith(("output_proj", "feed_forward.output")) and isinstance(module, nn.Linear):
            module.weight.mul_(LARGER)
    return model.eval()


def translator(device: str) -> nn.Module:
    """The Transformer, from the seed."""
    torch.manual_seed(SEED)
    sizes = SIZES["transformer"] | {"source_vocab_size": VOCAB_SIZE, "target_vocab_size": VOCAB_SIZE}
    return larger(transformer.Transformer(TRANSLATION_MODELS["transformer"].config(**sizes))).to(device)


@cache
def sources(count: int) -> list[list[int]]:
    """Sentences of Multi30k's lengths, of random tokens."""
    draw = np.random.default_rng(SEED + 1)
    lengths = pair_lengths()[:count, 0]
    return [[*draw.integers(UNK + 1, VOCAB_SIZE, length - 1).tolist(), EOS] for length in lengths]


def padded(answers: Any, length: int) -> list[int]:
    """The tokens of all rows, each padded to one length."""
    rows = [list((answer[0] if isinstance(answer, list) else answer).ids) for answer in answers]
    return [token for row in rows for token in [*row, *[EOS] * (length - len(row))]]


def doors(calls: tuple[Any, ...]) -> dict[str, tuple[Callable[[Any], Any], Calls]]:
    """The function that fuses a model, and the functions that must and must not be called, by the side's name."""
    return {"readable": (unchanged, ((), calls)), "fused": (fused.fuse, (calls, ()))}


def unchanged(model: Any) -> Any:
    """The model itself."""
    return model


def translation_duel(device: str, beam: int, count: int) -> Duel:
    """One batch of `count` sentences."""
    source = PaddedTokens.from_lists(sources(count))
    source = PaddedTokens(source.ids.to(device), source.lengths.to(device))
    search = Greedy() if beam == 1 else Beam(size=beam)
    times = max(8 // count, 1) if device == "cpu" else 1
    sides = {}
    for name, (door, (calls, avoids)) in doors(TRANSFORMER_STEP).items():
        run = partial(decode, door(translator(device)), source, search=search, limit=LIMIT)
        numbers = numbers_of(run, int(source.lengths.max()))
        sides[name] = Side(run=repeated(run, times), numbers=numbers, calls=calls, avoids=avoids)
    lengths = source.lengths.float()
    notes = {"source tokens": {"mean": float(lengths.mean()), "longest": int(lengths.max())}, "runs a turn": times}
    return Duel(sides=sides, tolerance=TOLERANCE, notes=notes | {"seed": SEED})


def repeated(run: Callable[[], Any], times: int) -> Callable[[], None]:
    """This many runs: one alone is short."""

    def all_of_them() -> None:
        for _ in range(times):
            run()

    return all_of_them


def numbers_of(run: Callable[[], Any], length: int) -> Callable[[], list[int]]:
    """The tokens of a run, as many for every row."""
    return lambda: padded(run(), length)


def gpt_sides(device: str) -> dict[str, tuple[Callable[[Any], Any], tuple[Any, ...], Calls]]:
    """As for translation, with swaps; on a GPU a side without the graph, and one with it."""
    if device != "cuda":
        return {name: (door, (), calls) for name, (door, calls) in doors(GPT_STEP).items()}
    no_graph = ((fused_gpt.FusedGPT, "step_function", lambda *_: None),)
    return {
        "readable": (unchanged, (), ((), (*GPT_STEP, *GRAPH))),
        "fused, no graph": (fused.fuse, no_graph, (GPT_STEP, GRAPH)),
        "fused, one CUDA graph a step": (fused.fuse, (), (GRAPH, ())),
    }


def gpt_duel(device: str, recipe: Any, vocab_size: int, count: int) -> Duel:
    """This many continuations in parallel."""
    draw = np.random.default_rng(SEED)
    prompts = draw.integers(UNK + 1, vocab_size, (count, PROMPT)).tolist()
    options = Generation(max_tokens=NEW, stop_ids=())
    sides = {}
    for name, (door, swaps, (calls, avoids)) in gpt_sides(device).items():
        torch.manual_seed(SEED)
        config = LANGUAGE_MODELS["gpt"].config(**recipe.SIZES["gpt"] | {"vocab_size": vocab_size})
        model = door(larger(gpt.GPT(config)).to(device))
        run = partial(generate, model, prompts, options)
        # the first tokens of samples: after a difference all later tokens differ
        few = partial(generate, model, prompts, replace(options, max_tokens=8))
        sides[name] = Side(run=run, numbers=numbers_of(few, 8), swaps=swaps, calls=calls, avoids=avoids)
    notes = {"prompt and new tokens a row": [PROMPT, NEW], "sizes": recipe.SIZES["gpt"], "seed": SEED}
    return Duel(sides=sides, tolerance=TOLERANCE, notes=notes)


def cases(device: str) -> list[Case]:
    """All cases of a device."""
    where = "CPU" if device == "cpu" else "GPU"
    cases_of_mode = [
        Case(
            group="transformer decoding", name=f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {count}, {where}",
            build=partial(translation_duel, device, beam, count),
            own=TRANSFORMER,
            share=SECONDS[count] * (1.0 if beam > 1 else 0.4),
        )
        for beam in (5, 1)
        for count in (1, 16, 64)
    ]  # fmt: skip
    cases_of_mode += [
        Case(
            group="GPT decoding", name=f"recipe {label}, batch {count}, {where}",
            build=partial(gpt_duel, device, recipe, vocab_size, count), own=GPT,
            share=GPT_SECONDS[label] * (1.0 if count == 1 else 1.5),
        )
        for label, recipe, vocab_size in (("text", text, 8_000), ("ptb", ptb, 10_002))
        for count in (1, 16)
    ]  # fmt: skip
    return cases_of_mode
