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
from torch import Tensor, nn

from benchmarks.ablation_batches import SEED, VOCAB_SIZE, pair_lengths
from benchmarks.ablation_training import refused
from benchmarks.sides import Case, Duel, Side
from regard.contracts import EOS, UNK, LengthLimit, PaddedTokens
from regard.decoding import Beam, Generation, Greedy, decode, generate
from regard.kernels import linear
from regard.layers import lean, lean_gpt, lean_gpt_graph, lean_stack, ready
from regard.models.language_modeling import LANGUAGE_MODELS, gpt
from regard.models.translation import TRANSLATION_MODELS, transformer
from regard.recipes import ptb, text
from regard.recipes.multi30k import SIZES

LIMIT = LengthLimit(factor=1.0, extra=0)
PROMPT, NEW = 16, 100
SECONDS = {1: 15.0, 16: 8.0, 64: 25.0}
GPT_SECONDS = {"text": 6.0, "ptb": 15.0}
"""Of a case on two CPU cores, about."""
LARGER = 6.0
"""By how much the last weights of every sub-layer are larger than those a training begins with."""
TOLERANCE = 0.1
"""Share of tokens that may differ: two sums in another order now and then name another best token."""

Changes = tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]
"""Swaps, what must be called and what must not."""

LEAN = (lean, lean_stack, ready, linear)
LEAN_GPT = (lean_gpt, gpt.GPT._lean_for, gpt.GPT._made_lean, gpt.places_of)
BOARD = (lean_gpt_graph, gpt.GPT.stepper, gpt.GPT._on_board)


def laid_nowhere(weight: Tensor) -> None:
    """No layout of oneDNN's: `F.linear` multiplies."""


def laid_as_it_is(weight: Tensor) -> Tensor:
    """The weight itself, which oneDNN multiplies as it lies."""
    return weight.detach()


@torch.no_grad()
def larger(model: nn.Module) -> nn.Module:
    """The same model, its sub-layers saying more."""
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
    """The tokens of all rows, each filled up to one length."""
    rows = [list((found[0] if isinstance(found, list) else found).ids) for found in answers]
    return [token for row in rows for token in [*row, *[EOS] * (length - len(row))]]


LEAN_STEP = ((transformer, "lean_step"),)


def translation_sides(
    device: str, *, in_parts: bool
) -> dict[str, tuple[tuple[Any, ...], tuple[Any, ...], tuple[Any, ...]]]:
    """Swaps, what must be called and what must not, by the side's name."""
    sides: dict[str, Any] = {
        "readable": (((transformer, "can_be_lean", refused),), (), LEAN_STEP),
        "fused, weights copied and laid out": ((), LEAN_STEP, ()),
    }
    if device == "cpu":
        sides["fused, weights as they lie"] = (((linear, "lay_out", laid_as_it_is),), LEAN_STEP, ())
    if device == "cpu" and in_parts:
        sides["fused, by F.linear"] = (((linear, "lay_out", laid_nowhere),), LEAN_STEP, ())
    return sides


def translation_duel(device: str, beam: int, count: int) -> Duel:
    """One batch of so many sentences."""
    source = PaddedTokens.from_lists(sources(count)).to(device)
    search = Greedy() if beam == 1 else Beam(size=beam)
    times = max(8 // count, 1) if device == "cpu" else 1
    sides = {}
    for name, (swaps, calls, avoids) in translation_sides(device, in_parts=beam > 1).items():
        model = translator(device)
        run = partial(decode, model, source, search=search, limit=LIMIT)
        sides[name] = Side(
            run=repeated(run, times), numbers=numbers_of(run, int(source.lengths.max())), swaps=swaps, calls=calls,
            avoids=avoids,
        )  # fmt: skip
    lengths = source.lengths.float()
    notes = {"source tokens": {"mean": float(lengths.mean()), "longest": int(lengths.max())}, "runs a turn": times}
    return Duel(sides=sides, tolerance=TOLERANCE, notes=notes | {"seed": SEED})


def repeated(run: Callable[[], Any], times: int) -> Callable[[], None]:
    """So many runs: one is short."""

    def all_of_them() -> None:
        for _ in range(times):
            run()

    return all_of_them


def numbers_of(run: Callable[[], Any], length: int) -> Callable[[], list[int]]:
    """The tokens of a run, as many for every row."""
    return lambda: padded(run(), length)


def encode_duel(device: str, count: int) -> Duel:
    """What is done before the first step."""
    source = PaddedTokens.from_lists(sources(count)).to(device)

    def run(model: Any) -> Any:
        with torch.inference_mode():
            return model.encode(source)

    def first_values(model: Any) -> dict[str, Tensor]:
        with torch.inference_mode():
            step = model.step(source.ids[:, 0], model.start(encoded := model.encode(source)), encoded)
        return {"logits": step.logits}

    sides = {}
    for name, (swaps, calls, avoids) in translation_sides(device, in_parts=False).items():
        model = translator(device)
        sides[name] = Side(
            run=repeated(partial(run, model), 4), numbers=partial(first_values, model), swaps=swaps, calls=calls,
            avoids=avoids,
        )  # fmt: skip
    return Duel(sides=sides, tolerance=1e-3, notes={"runs a turn": 4, "seed": SEED})


def gpt_sides(device: str) -> dict[str, Changes]:
    """As for translation; on a GPU a side without the graph, and one with it."""
    step, board = ((gpt, "lean_step"),), ((lean_gpt_graph.Board, "step"),)
    no_graph = ((gpt.GPT, "stepper", lambda *_, **__: None),)
    readable = ((gpt, "can_be_lean", refused),)
    if device == "cuda":
        return {
            "readable": (readable, (), (*step, *board)),
            "fused, no graph": (no_graph, step, board),
            "fused, one CUDA graph a step": ((), board, step),
        }
    return {
        "readable": (readable, (), step),
        "fused, weights copied and laid out": ((), step, ()),
        "fused, weights as they lie": (((linear, "lay_out", laid_as_it_is),), step, ()),
        "fused, by F.linear": (((linear, "lay_out", laid_nowhere),), step, ()),
    }


def gpt_duel(device: str, recipe: Any, vocab_size: int, count: int) -> Duel:
    """So many continuations side by side."""
    draw = np.random.default_rng(SEED)
    prompts = draw.integers(UNK + 1, vocab_size, (count, PROMPT)).tolist()
    options = Generation(max_tokens=NEW, stop_ids=())
    sides = {}
    for name, (swaps, calls, avoids) in gpt_sides(device).items():
        torch.manual_seed(SEED)
        config = LANGUAGE_MODELS["gpt"].config(**recipe.SIZES["gpt"] | {"vocab_size": vocab_size})
        model = larger(gpt.GPT(config)).to(device)
        run = partial(generate, model, prompts, options)
        # of draws, the first tokens: where one differs, so does all that follows
        few = partial(generate, model, prompts, replace(options, max_tokens=8))
        sides[name] = Side(run=run, numbers=numbers_of(few, 8), swaps=swaps, calls=calls, avoids=avoids)
    notes = {"prompt and new tokens a row": [PROMPT, NEW], "sizes": recipe.SIZES["gpt"], "seed": SEED}
    return Duel(sides=sides, tolerance=TOLERANCE, notes=notes)


def cases(device: str) -> list[Case]:
    """All of a device."""
    where = "CPU" if device == "cpu" else "GPU"
    made = [
        Case(
            group="transformer decoding", name=f"{'greedy' if beam == 1 else f'beam {beam}'}, batch {count}, {where}",
            build=partial(translation_duel, device, beam, count),
            own=(*LEAN, transformer.Transformer._made_lean, transformer.Transformer._lean_step),
            share=SECONDS[count] * (1.0 if beam > 1 else 0.4),
        )
        for beam in (5, 1)
        for count in (1, 16, 64)
    ]  # fmt: skip
    made += [
        Case(
            group="transformer decoding", name=f"encode and prepare, batch {count}, {where}",
            build=partial(encode_duel, device, count), own=LEAN, share=2.0,
        )
        for count in (1, 64)
    ]  # fmt: skip
    made += [
        Case(
            group="GPT decoding", name=f"recipe {label}, batch {count}, {where}",
            build=partial(gpt_duel, device, recipe, vocab_size, count), own=(*LEAN_GPT, *BOARD), shared=LEAN,
            share=GPT_SECONDS[label] * (1.0 if count == 1 else 1.5),
        )
        for label, recipe, vocab_size in (("text", text, 8_000), ("ptb", ptb, 10_002))
        for count in (1, 16)
    ]  # fmt: skip
    return made
