"""Long lists: sorted by length, cut into batches by size, and given back in the order they came.

Rows of like length share a batch, so little of it is padding and its rows end at about the same step. The longest go
first: where memory does not suffice, that shows at once. On a CPU a few batches go side by side.
"""

import torch

from regard.contracts import BOS, EOS, Hypothesis, Limit, Model, PaddedTokens, Search, device_of, evaluating
from regard.decoding.decode import GREEDY, LIMIT, decode
from regard.decoding.score import score
from regard.decoding.side_by_side import count_workers, share_of, side_by_side

TOKENS_PER_BATCH = 4096


def decode_all(
    model: Model,
    rows: list[list[int]],
    *,
    search: Search = GREEDY,
    limit: Limit = LIMIT,
    tokens_per_batch: int = TOKENS_PER_BATCH,
    device: torch.device | str | None = None,
    return_weights: bool = False,
    numbers: list[int] | None = None,
) -> list[list[Hypothesis]]:
    """Hypotheses for each source, which ends with <eos>; a batch holds so many source tokens at most, with padding.

    Left out, the device is the one that the model is on. `numbers` are what a sample is drawn by, one a row, for rows
    that are part of a longer text; left out, they count from 0.
    """
    place = device_of(model) if device is None else torch.device(device)
    drawn_by = list(range(len(rows))) if numbers is None else numbers

    def answer(places: list[int]) -> list[list[Hypothesis]]:
        return decode(
            model,
            moved(PaddedTokens.from_lists([rows[row] for row in places]), place),
            search=search,
            limit=limit,
            return_weights=return_weights,
            numbers=torch.tensor([drawn_by[row] for row in places], device=place),
        )

    lengths, workers = [len(row) for row in rows], count_workers(model, place)
    cut = batches(lengths, share_of(sum(lengths), tokens_per_batch, workers))
    # one for all: a batch that ends must not let the model train again while others are at work
    with evaluating(model):
        answers = side_by_side(answer, cut, workers=workers)
    results: list[list[Hypothesis]] = [[] for _ in rows]
    for places, some in zip(cut, answers, strict=True):
        for row, found in zip(places, some, strict=True):
            results[row] = found
    return results


def score_all(
    model: Model,
    sources: list[list[int]],
    targets: list[list[int]],
    *,
    tokens_per_batch: int = TOKENS_PER_BATCH,
    device: torch.device | str | None = None,
) -> list[float]:
    """log p(target <eos> | source) of each pair; sources end with <eos>, targets have no marks."""
    if len(sources) != len(targets):
        raise ValueError(f"there are {len(sources)} sources and {len(targets)} targets. Give one target a source.")
    place = device_of(model) if device is None else torch.device(device)
    results = [0.0] * len(sources)
    pairs = zip(sources, targets, strict=True)
    for numbers in batches([max(len(source), len(target) + 1) for source, target in pairs], tokens_per_batch):
        read = PaddedTokens.from_lists([[BOS, *targets[number]] for number in numbers])
        said = PaddedTokens.from_lists([[*targets[number], EOS] for number in numbers])
        source = PaddedTokens.from_lists([sources[number] for number in numbers])
        found = score(model, moved(source, place), moved(read, place), said.ids.to(place))
        for number, log_prob in zip(numbers, found.tolist(), strict=True):
            results[number] = log_prob
    return results


def batches(lengths: list[int], tokens_per_batch: int) -> list[list[int]]:
    """Row numbers, longest first, in batches of at most so many tokens; a longer row goes alone."""
    if tokens_per_batch < 1:
        raise ValueError(f"tokens_per_batch is {tokens_per_batch}, expected 1 or more; {TOKENS_PER_BATCH} is usual.")
    cut: list[list[int]] = []
    for number in sorted(range(len(lengths)), key=lambda number: -lengths[number]):
        if cut and (len(cut[-1]) + 1) * lengths[cut[-1][0]] <= tokens_per_batch:
            cut[-1].append(number)
        else:
            cut.append([number])
    return cut


def moved(sequences: PaddedTokens, device: torch.device) -> PaddedTokens:
    """The same sequences on this device."""
    return PaddedTokens(sequences.ids.to(device), sequences.lengths.to(device))
