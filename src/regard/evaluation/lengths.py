"""Quality by the length of the source: where a fixed vector breaks down and attention does not.

The figure of Bahdanau, Cho and Bengio 2015, section 5.1. https://arxiv.org/abs/1409.0473
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from regard.evaluation.check import check_pairs

Metric = Callable[[list[str], list[str]], float]


@dataclass(frozen=True)
class LengthBucket:
    """Sources of first..last words (last None: and longer); `value` is None where there are none."""

    first: int
    last: int | None
    count: int
    value: float | None

    @property
    def label(self) -> str:
        """What a table calls it."""
        return f"{self.first}+" if self.last is None else f"{self.first}-{self.last}"


def by_length(
    source_lengths: Sequence[int],
    hypotheses: Sequence[str],
    references: Sequence[str],
    *,
    metric: Metric,
    edges: Sequence[int] = (10, 20, 30, 40, 50),
) -> tuple[LengthBucket, ...]:
    """One bucket up to and with each edge, one beyond the last; the metric is taken of each bucket as a corpus.

    The caller counts the lengths, in words or in tokens.
    """
    check_pairs(hypotheses, references)
    if len(source_lengths) != len(hypotheses):
        raise ValueError(
            f"there are {len(source_lengths)} source lengths but {len(hypotheses)} hypotheses. Give one for each."
        )
    if not edges or sorted(set(edges)) != list(edges) or edges[0] < 0:
        raise ValueError(f"edges={tuple(edges)} must rise from 0 or more. Write for example edges=(10, 20, 30).")
    if min(source_lengths) < 0:
        raise ValueError(f"a source length of {min(source_lengths)} is below 0. Count words or tokens.")
    buckets = []
    for first, last in zip((0, *(edge + 1 for edge in edges)), (*edges, None), strict=True):
        places = [
            place for place, length in enumerate(source_lengths) if first <= length and (last is None or length <= last)
        ]
        value = metric([hypotheses[i] for i in places], [references[i] for i in places]) if places else None
        buckets.append(LengthBucket(first=first, last=last, count=len(places), value=value))
    return tuple(buckets)
