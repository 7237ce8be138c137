"""Decoding: answers to a batch of sources, by any search, over any model."""

import torch
from jaxtyping import Int
from torch import Tensor

from regard.contracts import Hypothesis, Limit, Model, PaddedTokens, Search, Task, evaluating
from regard.decoding.greedy import Greedy

GREEDY = Greedy()
LIMIT = Limit()


def decode(
    model: Model,
    source: PaddedTokens,
    *,
    search: Search = GREEDY,
    limit: Limit = LIMIT,
    return_weights: bool = False,
    numbers: Int[Tensor, " B"] | None = None,
) -> list[list[Hypothesis]]:
    """Hypotheses for each source, best first.

    No answer depends on the rest of the batch. `numbers` are the rows' places in the caller's own list (0, 1, ..
    where left out): `Sample` draws by them, so that a list cut into batches gets the same samples.
    """
    lengths = source.lengths.tolist()
    if not lengths:
        return []
    if min(lengths) < 1:
        raise ValueError(
            f"source {lengths.index(min(lengths))} is empty. A source ends with <eos>: give that at least."
        )
    if numbers is None:
        numbers = torch.arange(len(lengths), device=source.ids.device)
    task = Task(
        model=model,
        source=source,
        limits=[limit.of(length) for length in lengths],
        numbers=numbers.to(source.ids.device),
        return_weights=return_weights,
    )
    with evaluating(model):
        return search.run(task)
