"""How fast does a GPT-2 continue a text on a GPU, against transformers' `generate`?

As generation.py, on a GPU: models in float32 and models in bf16, each precision on both sides. Transformers runs as its
users run it, eager with a growing cache; ours replays a step as one CUDA graph, which is captured before the first turn
and kept for the next texts of that shape. In bf16 two sums in another order may well name another best token, so how
far both say the same is a note, not a verdict.

Where there is no GPU nothing is measured; REGARD_BENCHMARK_TOY=1 runs the whole at toy size on the CPU, unsaved.
"""

import os
from dataclasses import replace

import torch

from benchmarks.allocators import turns
from benchmarks.generation import LARGE, SMALL, Place, speed
from benchmarks.harness import Report, save
from regard.models.language_modeling.gpt import GPTConfig

PRECISIONS = (torch.float32, torch.bfloat16)
TOY = GPTConfig(vocab_size=300, hidden_size=32, num_layers=2, num_heads=2, feed_forward_size=64, context=32)


def run() -> list[Report]:
    """Both sizes, one text and sixteen, in both precisions; the toy on request."""
    if os.environ.get("REGARD_BENCHMARK_TOY") == "1":
        place = Place(prompt=8, new=16, num_turns=2, pause=0.0)
        return [speed(TOY, batch_size=2, place=replace(place, dtype=dtype)) for dtype in PRECISIONS]
    if not torch.cuda.is_available():
        return []
    reports: list[Report] = []
    for config in (SMALL, LARGE):
        for batch_size in (1, 16):
            for dtype in PRECISIONS:
                place = Place(device="cuda", dtype=dtype, new=128, num_turns=turns(5), pause=0.0)
                reports.append(speed(config, batch_size=batch_size, place=place))
                save("generation_cuda", *reports)
    return reports


if __name__ == "__main__":
    run()
