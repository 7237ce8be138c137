"""What a search is given and what it gives: a task, hypotheses, and how long one may be."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts.model import Model
from regard.contracts.sources import PaddedTokens


@dataclass(frozen=True, kw_only=True)
class Hypothesis:
    """One answer: its tokens without <bos> and <eos>, and how probable the model finds it.

    `log_prob` is log p(ids <eos> | source) over the whole vocabulary, so it equals what `score` gives; an unfinished
    hypothesis ran into its limit and has no <eos>. `score` is what the search ranks by. `alignment` has a row per token
    (and one for <eos> where finished) and a column per source token; None where not asked for, or where the model does
    not attend.
    """

    ids: tuple[int, ...]
    log_prob: float
    score: float
    finished: bool
    alignment: Float[Tensor, "T source"] | None = None


@dataclass(frozen=True)
class Limit:
    """At most factor * source length + extra tokens, <eos> among them on both sides.

    Each row counts its own source, so that no answer depends on what else is in the batch.
    """

    factor: float = 2.0
    extra: int = 20

    def __post_init__(self) -> None:
        if self.factor < 0 or self.extra < 0 or self.factor + self.extra < 1:
            raise ValueError(
                f"Limit(factor={self.factor}, extra={self.extra}) leaves no room for a token. "
                f"Give an extra of 1 or more, or a factor of 1 or more, and neither below 0."
            )

    def of(self, length: int) -> int:
        """How many tokens may answer a source of this length."""
        return int(self.factor * length) + self.extra


@dataclass(frozen=True, kw_only=True)
class Task:
    """What a search works on: a batch of sources, how many tokens each may be answered with, and each one's number.

    The numbers are the rows' places in the caller's own list: a search that draws at random draws by them.
    """

    model: Model
    source: PaddedTokens
    limits: list[int]
    numbers: Int[Tensor, " B"]
    return_weights: bool


@runtime_checkable
class Search(Protocol):
    """A way to look for good answers: Greedy(), Beam(..), Sample(..)."""

    def run(self, task: Task) -> list[list[Hypothesis]]:
        """Answers to each source, best first."""
        ...
