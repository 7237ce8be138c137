"""Decoding: the input of a search, hypotheses, their length limit, and the protocols of a search and an engine."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts.model import Model
from regard.contracts.sources import Source


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One output: its tokens without <bos> and <eos>, and its log-probability.

    `log_prob` is log p(ids <eos> | source) over the whole vocabulary, which equals the result of `score`; an unfinished
    hypothesis reached its limit and has no <eos>. The search ranks by `score`. `weights` have a row per token (and one
    for <eos> if finished) and a column per source token; it is None if not requested, or if the model does not attend.
    """

    ids: tuple[int, ...]
    # in nats
    log_prob: float
    score: float
    finished: bool
    weights: Float[Tensor, "T source"] | None = None


@dataclass(frozen=True)
class LengthLimit:
    """At most factor * source length + extra tokens, <eos> among them on both sides.

    Each example has the limit of its own source: no output depends on the rest of the batch.
    """

    factor: float = 2.0
    extra: int = 20

    def __post_init__(self) -> None:
        # the shortest source has one token, for which the limit must allow one
        if self.factor < 0 or self.extra < 0 or self.factor + self.extra < 1:
            raise ValueError(
                f"LengthLimit(factor={self.factor}, extra={self.extra}) leaves no room for a token. "
                f"Give an extra of 1 or more, or a factor of 1 or more, and neither below 0."
            )

    def of(self, length: int) -> int:
        """The largest number of tokens for a source of this length."""
        # rounded down
        return int(self.factor * length) + self.extra


@dataclass(frozen=True, kw_only=True)
class SearchInput:
    """A model, a batch of sources, and for each source the largest number of tokens and its number.

    The numbers are the positions of the sources in the caller's list; random draws depend on them.
    """

    model: Model
    source: Source
    # on the host, where the loops compare them without a transfer
    limits: list[int]
    # on the device, where random numbers are computed from them
    numbers: Int[Tensor, " B"]
    return_weights: bool


@runtime_checkable
class Search(Protocol):
    """A search algorithm: Greedy(), Beam(..), Sampling(..)."""

    def run(self, inputs: SearchInput) -> list[list[Hypothesis]]:
        """Hypotheses for each source, best first."""
        ...


@runtime_checkable
class DecodingEngine(Protocol):
    """Decodes a list of sources with a model of its own, such as one in torch or one that was exported."""

    def decode(
        self,
        sources: Sequence[Any],
        search: Search,
        limit: LengthLimit,
        *,
        return_weights: bool = False,
        numbers: Sequence[int] | None = None,
    ) -> list[list[Hypothesis]]:
        """Hypotheses for each source, best first.

        Random draws depend on `numbers`, one for each source; left out, they count from 0. An engine that does not
        support a search or an option raises a ValueError.
        """
        ...
