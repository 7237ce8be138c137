"""Decoding and scoring of one batch of sources, and of lists of any length.

A list is sorted by length and cut into batches, so that little of a batch is padding and its examples end at about the
same step. The longest sources come first: if the memory does not suffice, the first batch fails. The results are in the
order of the list.
"""

from collections.abc import Callable, Sequence, Sized
from typing import TypeVar

import torch
from jaxtyping import Int
from torch import Tensor

from regard.contracts import (
    BOS,
    EOS,
    Hypothesis,
    LengthLimit,
    Model,
    PaddedTokens,
    Search,
    SearchInput,
    Source,
    device_of,
    evaluating,
)
from regard.decoding.greedy import Greedy
from regard.decoding.score import score

Example = TypeVar("Example", bound=Sized)
GREEDY = Greedy()
TOKENS_PER_BATCH = 4096


def decode(
    model: Model,
    source: Source,
    *,
    limit: LengthLimit,
    search: Search = GREEDY,
    return_weights: bool = False,
    numbers: Int[Tensor, " B"] | None = None,
) -> list[list[Hypothesis]]:
    """Hypotheses for each source of a batch, best first.

    No output depends on the rest of the batch. `numbers` are the positions of the sources in the caller's list (0, 1,
    .. if left out): `Sampling` draws by them, so that a list has the same samples however it is cut into batches.
    """
    lengths = source.lengths.tolist()
    if not lengths:
        return []
    if min(lengths) < 1:
        raise ValueError(
            f"source {lengths.index(min(lengths))} is empty. A source ends with <eos>: give that at least."
        )
    if numbers is None:
        numbers = torch.arange(len(lengths), device=source.device)
    inputs = SearchInput(
        model=model,
        source=source,
        limits=[limit.of(length) for length in lengths],
        numbers=numbers.to(source.device),
        return_weights=return_weights,
    )
    with evaluating(model):
        return search.run(inputs)


def decode_all(
    model: Model,
    sources: Sequence[Example],
    *,
    stack: Callable[[list[Example]], Source],
    limit: LengthLimit,
    search: Search = GREEDY,
    tokens_per_batch: int = TOKENS_PER_BATCH,
    device: torch.device | str | None = None,
    return_weights: bool = False,
    numbers: Sequence[int] | None = None,
) -> list[list[Hypothesis]]:
    """Hypotheses for each source of a list, best first.

    `stack` makes a batch of some sources; the `len` of a source is its length in the batch. A batch holds at most
    `tokens_per_batch`, padding included. Left out, the device is that of the model, and `numbers` count from 0 (see
    `decode`).
    """
    target_device = device_of(model) if device is None else torch.device(device)
    draw_numbers = list(range(len(sources))) if numbers is None else list(numbers)
    hypotheses: list[list[Hypothesis]] = [[] for _ in sources]
    # each batch writes its results at the positions of the caller's list
    for positions in batches([len(source) for source in sources], tokens_per_batch):
        outputs = decode(
            model,
            stack([sources[position] for position in positions]).to(target_device),
            search=search,
            limit=limit,
            return_weights=return_weights,
            numbers=torch.tensor([draw_numbers[position] for position in positions], device=target_device),
        )
        for position, output in zip(positions, outputs, strict=True):
            hypotheses[position] = output
    return hypotheses


def score_all(
    model: Model,
    sources: Sequence[Example],
    targets: Sequence[Sequence[int]],
    *,
    stack: Callable[[list[Example]], Source],
    tokens_per_batch: int = TOKENS_PER_BATCH,
    device: torch.device | str | None = None,
) -> list[float]:
    """log p(target <eos> | source) of each pair; targets are token ids without <bos> and <eos>."""
    if len(sources) != len(targets):
        raise ValueError(f"there are {len(sources)} sources and {len(targets)} targets. Give one target a source.")
    target_device = device_of(model) if device is None else torch.device(device)
    scores = [0.0] * len(sources)
    pairs = zip(sources, targets, strict=True)
    # a target is read with <bos> or <eos>: one more than its tokens
    lengths = [max(len(source), len(target) + 1) for source, target in pairs]
    for positions in batches(lengths, tokens_per_batch):
        source = stack([sources[position] for position in positions]).to(target_device)
        prefixes = PaddedTokens.from_lists([[BOS, *targets[position]] for position in positions]).to(target_device)
        labels = PaddedTokens.from_lists([[*targets[position], EOS] for position in positions]).to(target_device)
        log_probs = score(model, source, prefixes, labels.ids)
        for position, log_prob in zip(positions, log_probs.tolist(), strict=True):
            scores[position] = log_prob
    return scores


def batches(lengths: list[int], tokens_per_batch: int) -> list[list[int]]:
    """Positions in the list, longest example first, in batches of this many tokens at most; a longer one is alone."""
    if tokens_per_batch < 1:
        raise ValueError(f"tokens_per_batch is {tokens_per_batch}, expected 1 or more; {TOKENS_PER_BATCH} is usual.")
    groups: list[list[int]] = []
    for position in sorted(range(len(lengths)), key=lambda position: -lengths[position]):
        # the first of a group is its longest: it decides the padded length
        if groups and (len(groups[-1]) + 1) * lengths[groups[-1][0]] <= tokens_per_batch:
            groups[-1].append(position)
        else:
            groups.append([position])
    return groups
