"""How fast does the Transformer decode on a CPU, against MarianMT's `generate` and CTranslate2 in float32?

All three run the same weights, set by hand so that the model copies its source and says <eos> where the source does:
sentences of Multi30k's lengths end at different steps, and everyone must give back exactly the source. Without an <eos>
in the source it never ends, and all write the same number of tokens; there Joey NMT joins in, with weights of its own.

A text of many sentences is batched by each library's own rule for a number of source tokens per batch (`generate` has
none and is given ours); a batch of 64, 16 or 1 is taken as it comes. Each library has a process of its own, and they
take turns.
"""

import json
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import nn

from benchmarks.allocators import ALLOCATORS, turns
from benchmarks.harness import Report, Timing, command, machine, save, show, timing
from benchmarks.peers import available, marian_generate, our_model, same_marian, save_ctranslate2, versions
from benchmarks.translation_pairs import load_pairs
from benchmarks.translation_training import CONFIG, VOCAB_SIZE
from regard.contracts import LengthLimit, PaddedTokens
from regard.decoding import Beam, Greedy, decode, decode_all
from regard.decoding.decode import batches as cut
from regard.fused import fuse
from regard.models.translation.transformer import Transformer

FIXED_TOKENS = 16
MOST_TOKENS = 64
TEXT = 512
"""Number of sentences of a text."""
TOKENS_A_BATCH = 4096
"""Tokens of a batch of a text, which each library batches by its own rule; a beam divides them among its hypotheses."""
SHARPNESS = 6.0
PAUSE = 0.3
"""Longer than an OpenMP runtime spins after its last work (200 ms)."""


@torch.no_grad()
def copying_model() -> Transformer:
    """Our model with weights that copy: the last layer's cross-attention selects the source token of the same position.

    Words live in the upper half of the features, where positions hardly move; the first quarter, where they move
    fastest, is what queries and keys compare. All other sub-layers add nothing, at full cost.
    """
    model = our_model(CONFIG).eval()
    size, half, head = CONFIG.hidden_size, CONFIG.hidden_size // 2, CONFIG.hidden_size // CONFIG.num_heads
    words = model.target_embedding.table.weight
    words[:, :half] = 0.0
    # slow positions are close to 0, 1, 0, 1, ..: a layer norm scales words orthogonal to that, of equal norm, equally
    pairs = words[:, half:].unflatten(1, (2, -1, 2))
    pairs = F.normalize((pairs - pairs.mean(dim=2, keepdim=True)).flatten(1), dim=1)
    words[:, half:] = pairs * (half / size) ** 0.5
    for layer in [*model.encoder, *model.decoder]:
        for name, module in layer.named_modules():
            if name.endswith(("output_proj", "feed_forward.output")):
                silence(module)
    attention = model.decoder[-1].cross_attention
    for proj in (attention.query_proj, attention.key_proj, attention.value_proj, attention.output_proj):
        silence(proj)
    # a layer norm subtracts the mean of all features, which features that are always 0 then contain
    mean_shift = torch.zeros(size)
    mean_shift[-head::2] = 2 / head
    for first in range(0, size, head):
        for proj in (attention.query_proj, attention.key_proj):
            proj.weight[first : first + head] = SHARPNESS * (torch.eye(head, size) - mean_shift)
    attention.value_proj.weight[:half, half:] = torch.eye(half)
    attention.output_proj.weight[half:, :half] = 10.0 * torch.eye(half)
    return model


def silence(proj: nn.Linear) -> None:
    """Set the weights of a layer to zero."""
    nn.init.zeros_(proj.weight)
    nn.init.zeros_(proj.bias)


def sentences(count: int, *, ends: bool) -> tuple[list[list[int]], str]:
    """Sources of Multi30k's test set; without their <eos> where they are not to end."""
    pairs = load_pairs(vocab_size=VOCAB_SIZE, split="test_2016_flickr", limit=count)
    return [source if ends else source[:-1] for source, _ in pairs.rows], pairs.origin


def ours(model: Transformer, task: dict[str, Any]) -> Callable[[], Any]:
    """Our search over the task's batches, or over its text."""
    fused = fuse(model)
    search = Greedy() if task["beam_size"] == 1 else Beam(size=task["beam_size"])
    limit = LengthLimit(factor=0.0, extra=task["most"])
    if (tokens := task["tokens_a_batch"]) is not None:
        (text,) = task["batches"]
        return lambda: [
            list(one[0].ids)
            for one in decode_all(
                fused, text, search=search, limit=limit, tokens_per_batch=tokens, stack=PaddedTokens.from_lists
            )
        ]
    sources = [PaddedTokens.from_lists(rows) for rows in task["batches"]]
    return lambda: [list(one[0].ids) for source in sources for one in decode(fused, source, search=search, limit=limit)]


def marian(model: nn.Module, task: dict[str, Any]) -> Callable[[], Any]:
    """MarianMT's generate, a text sorted and cut by our rule."""
    rows = [row for batch in task["batches"] for row in batch]
    size = len(task["batches"][0])
    cuts = [list(range(first, min(first + size, len(rows)))) for first in range(0, len(rows), size)]
    if task["tokens_a_batch"] is not None:
        cuts = cut([len(row) for row in rows], task["tokens_a_batch"])
    sources = [PaddedTokens.from_lists([rows[number] for number in numbers]) for numbers in cuts]
    encoded_batches = [(numbers, source.ids, source.mask.long()) for numbers, source in zip(cuts, sources, strict=True)]

    def run() -> list[list[int]]:
        said: dict[int, list[int]] = {}
        for numbers, ids, mask in encoded_batches:
            answers = marian_generate(model, ids, mask, beam_size=task["beam_size"], max_tokens=task["most"])
            said |= dict(zip(numbers, answers, strict=True))
        return [said[number] for number in range(len(rows))]

    return run


class Side:
    """One library in a separate process."""

    def __init__(self, name: str, folder: Path, environment: dict[str, str]) -> None:
        command = [sys.executable, "-m", "benchmarks.decoding_worker", str(folder), name]
        self.process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env=os.environ | environment,
        )
        self.said: list[list[int]] = json.loads(self.heard())

    def heard(self) -> str:
        """The next line of its output."""
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{' '.join(map(str, self.process.args))} ended with {self.process.wait()}")
        return line

    def turn(self) -> float:
        """Seconds of one turn, by its own clock."""
        assert self.process.stdin is not None
        self.process.stdin.write("go\n")
        self.process.stdin.flush()
        return float(self.heard())

    def close(self) -> None:
        """End the process."""
        self.process.communicate()


def measure(sides: dict[str, Side], num_turns: int) -> dict[str, Timing]:
    """Time the sides alternately; after a pause the threads of the previous one are idle."""
    seconds: dict[str, list[float]] = {name: [] for name in sides}
    names = list(sides)
    for turn in range(-1, num_turns):
        for name in names[turn % len(names) :] + names[: turn % len(names)]:
            time.sleep(PAUSE)
            duration = sides[name].turn()
            if turn >= 0:
                seconds[name].append(duration)
    return {name: timing(duration) for name, duration in seconds.items()}


def present(folder: Path, *, ends: bool) -> list[str]:
    """The candidates that can run; the model of CTranslate2 is written into the folder."""
    names = ["regard"]
    if not ends and available("joeynmt"):
        names.append("Joey NMT")
    if available("transformers"):
        names.append("MarianMT generate")
        if available("ctranslate2"):
            names.append("CTranslate2 float32")
            save_ctranslate2(same_marian(copying_model()), folder / "ctranslate2")
    return names


def speed(*, beam_size: int, batch_size: int, ends: bool, num_turns: int, environment: dict[str, str]) -> Report:
    """One measurement, each library in a separate process."""
    rows, origin = sentences(max(batch_size, 8), ends=ends)
    batches = [rows[first : first + batch_size] for first in range(0, len(rows), batch_size)]
    most, load = MOST_TOKENS if ends else FIXED_TOKENS, round(os.getloadavg()[0], 2)
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        task = {
            "batches": batches,
            "beam_size": beam_size,
            "most": most,
            "threads": torch.get_num_threads(),
            "tokens_a_batch": TOKENS_A_BATCH // beam_size if batch_size == TEXT else None,
        }
        (folder / "task.json").write_text(json.dumps(task))
        names = present(folder, ends=ends)
        sides = {name: Side(name, folder, environment) for name in names}
        timings = measure(sides, num_turns)
        for side in sides.values():
            side.close()
    said = {name: side.said for name, side in sides.items()}
    tokens = sum(len(row) for row in said["regard"])
    notes: dict[str, Any] = {
        "load of the machine at the start": load,
        "data": origin,
        "sentences a turn": len(rows),
        "tokens a sentence": tokens / len(rows),
        "same as regard": {
            name: agreement(answers, said["regard"]) for name, answers in said.items() if name != "Joey NMT"
        },
        "tokens a second": {name: round(tokens / one.median) for name, one in timings.items()},
        "versions": versions("transformers", "ctranslate2", "joeynmt"),
        "seed": 0,
    }
    if ends:
        notes["copies of the source"] = agreement(said["regard"], [row[:-1] for row in rows])
    ratios = {name: one.median / timings["regard"].median for name, one in timings.items()}
    return Report(in_words(beam_size, batch_size, ends=ends), machine(), command(), timings, "regard", ratios, notes)


def in_words(beam_size: int, batch_size: int, *, ends: bool) -> str:
    """The title of the measurement."""
    search = "greedy" if beam_size == 1 else f"beam {beam_size}"
    batching = f"a text of {TEXT}" if batch_size == TEXT else f"batches of {batch_size}"
    ending = "ending with the source" if ends else f"{FIXED_TOKENS} tokens each"
    return f"decoding, {search}, {batching}, {ending}"


def agreement(answers: list[list[int]], expected: list[list[int]]) -> str:
    """How many rows are the same."""
    return f"{sum(ours == theirs for ours, theirs in zip(answers, expected, strict=True))} of {len(expected)}"


def questions() -> Iterator[Report]:
    """Greedy and beam 5; a text, batches of 64, 16 and 1; outputs that end with <eos>, and of one length."""
    for allocator, environment in ALLOCATORS.items():
        for beam_size in (1, 5):
            for batch_size, ends in ((TEXT, True), (64, True), (16, True), (1, True), (64, False)):
                report = speed(
                    beam_size=beam_size,
                    batch_size=batch_size,
                    ends=ends,
                    num_turns=turns(5 if batch_size == TEXT else 9),
                    environment=environment,
                )
                report = replace(report, question=f"{report.question}, {allocator}")
                show(report)
                yield report


def run() -> list[Report]:
    """All measurements, saved one by one; a ratio above 1 means that a peer is slower than ours."""
    reports: list[Report] = []
    for report in questions():
        reports.append(report)
        save("translation_decoding", *reports)
    return reports


if __name__ == "__main__":
    run()
