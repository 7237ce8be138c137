"""Batches of training and evaluation: inputs of the model and labels."""

from dataclasses import dataclass

from jaxtyping import Bool, Int
from torch import Tensor

from regard.contracts.pytree import register_pytree
from regard.contracts.sources import PackedTokens, PaddedTokens


@register_pytree
@dataclass(frozen=True, kw_only=True)
class Segment:
    """A piece of B token streams: inputs, labels, and which streams begin with it.

    A stream that is not `fresh` continues the previous segment, with the model's state. `num_tokens` is the number of
    labels that are not <pad>, as a Python number.
    """

    tokens: Int[Tensor, "B T"]
    labels: Int[Tensor, "B T"]
    # a fresh stream starts from the initial state; the others must not
    fresh: Bool[Tensor, " B"]
    # counted on the host when the batch is made: the loss divides by it, and counting on a GPU would synchronise
    num_tokens: int


@register_pytree
@dataclass(frozen=True, kw_only=True)
class ClassificationBatch:
    """Sentences with their classes; `num_tokens` is the number of labels."""

    sentences: PaddedTokens
    labels: Int[Tensor, " B"]
    num_tokens: int


@register_pytree
@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pairs of sequences for teacher forcing.

    source x_1 .. x_m <eos>;  target <bos> y_1 .. y_n, the decoder's input;  labels y_1 .. y_n <eos>, in the shape of
    the target's ids, <pad> where there is no label. `num_tokens` is the number of labels that are not <pad>.
    """

    source: PaddedTokens | PackedTokens
    target: PaddedTokens | PackedTokens
    # (B, T) beside a padded target, (N,) beside a packed one
    labels: Int[Tensor, "..."]
    num_tokens: int
