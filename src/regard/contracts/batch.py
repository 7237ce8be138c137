"""What training and evaluation hand to a model: a source, what its decoder reads, and what it should say."""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from regard.contracts.sources import PackedTokens, PaddedTokens


@dataclass(frozen=True, kw_only=True)
class Segment:
    """A piece of several streams side by side: what is read, what comes next, and which rows begin anew.

    A row that is not fresh goes on where the segment before it ended. `num_tokens` counts the labels that are not
    <pad>, known to the host.
    """

    tokens: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]
    fresh: Bool[Tensor, " B"]
    num_tokens: int


@dataclass(frozen=True, kw_only=True)
class ClassificationBatch:
    """Sentences with their classes; `num_tokens` counts the classes to be learned, one a sentence."""

    sentences: PaddedTokens
    labels: Int[Tensor, " B"]
    num_tokens: int


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pairs of sentences under teacher forcing.

    source x_1 .. x_m <eos>;  target <bos> y_1 .. y_n, what the decoder reads;  labels y_1 .. y_n <eos>, in the shape of
    the target's ids, <pad> where there is nothing to say. `num_tokens` counts the real labels, known to the host.
    """

    source: PaddedTokens | PackedTokens
    target: PaddedTokens | PackedTokens
    labels: Int[Tensor, "..."]
    num_tokens: int
