"""Data types and protocols of attention: score -> align -> aggregate.

Shapes: *B any leading dimensions (batch; batch and heads), Q queries, K keys.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.contracts.pytree import register_pytree
from regard.contracts.sources import PackedTokens


@register_pytree
@dataclass(frozen=True, kw_only=True)
class Memory:
    """Keys that their score has prepared, values, and which keys exist.

    With `packed`, keys and values are (N, heads, size), the sequences end to end.
    """

    keys: Float[Tensor, "... K key"]
    values: Float[Tensor, "... K value"]
    mask: Bool[Tensor, "... K"] | None = None
    packed: PackedTokens | None = None


@register_pytree
@dataclass(frozen=True, kw_only=True)
class PositionInfo:
    """Positions, lengths and earlier weights, for alignments that depend on them (Luong's local forms, the diagonal).

    `attend` sets the queries. By default lengths follow from the mask and keys are counted from 0. Positions of the
    queries have no default: a decoder calls attention one step at a time. Without `previous_weights` the first query is
    the first of its sequence.
    """

    queries: Float[Tensor, "... Q query"] | None = None
    # (Q,) for the whole batch, or (batch, Q)
    positions: Int[Tensor, "... Q"] | None = None
    # one number per element of the first leading dimensions, usually (batch,)
    lengths: Int[Tensor, "..."] | None = None
    # known under teacher forcing only
    target_lengths: Int[Tensor, "..."] | None = None
    # in self-attention with a cache the first key need not have position 0
    key_positions: Int[Tensor, " K"] | None = None
    # of the query before the first one; with heads (batch, heads, K)
    previous_weights: Float[Tensor, "... K"] | None = None


@register_pytree
@dataclass(frozen=True, kw_only=True)
class Aligned:
    """The weights of an alignment; alignments that sample add the log-probability of the sample."""

    weights: Float[Tensor, "... Q K"]
    sample_log_prob: Float[Tensor, "... Q"] | None = None


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """Scores as a dot product: scale * queries . keys + key_bias + bias.

    `key_bias` is a bias per key, shared by all queries; `bias` broadcasts to [.., Q, K]. `drops_row_constant` says that
    a term equal for all keys of a query was left out; the alignment must be invariant to it.
    """

    queries: Float[Tensor, "... Q size"]
    keys: Float[Tensor, "... K size"]
    scale: float = 1.0
    # K numbers, where a bias per pair needs Q * K
    key_bias: Float[Tensor, "... K"] | None = None
    bias: Float[Tensor, "..."] | None = None
    drops_row_constant: bool = False


# not a form of `Lowered`: a tanh of the sum is no product of a query and a key
@dataclass(frozen=True, kw_only=True)
class LoweredSum:
    """Scores as a sum through tanh: energy . tanh(queries + keys)."""

    queries: Float[Tensor, "... Q H"]
    keys: Float[Tensor, "... K H"]
    energy: Float[Tensor, " H"]


@dataclass(frozen=True, kw_only=True)
class LoweredSquare:
    """Scores as a squared distance: -1/2 |width (queries - keys)|^2, with one width or one per dimension."""

    queries: Float[Tensor, "... Q size"]
    keys: Float[Tensor, "... K size"]
    width: Float[Tensor, "..."]


@runtime_checkable
class Score(Protocol):
    """How well each key matches each query. `__call__` defines the scores; `lower` gives the same to fused kernels."""

    def prepare(self, keys: Tensor) -> Tensor:
        """The part of the computation that depends on the keys alone."""
        ...

    def lower(self, queries: Tensor, keys: Tensor) -> Lowered | LoweredSum | LoweredSquare | str:
        """The scores in a form that a fused kernel computes, or the reason why there is none."""
        ...

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores of every query with every prepared key, [.., Q, K]."""
        ...


@runtime_checkable
class Alignment(Protocol):
    """Scores to weights. Keys that the mask forbids, and keys with a score of -inf, get weight 0."""

    # a read-only property, so that a class attribute and a field of a frozen dataclass both satisfy the protocol
    @property
    def ignores_row_constant(self) -> bool:
        """True if a constant added to all scores of a query leaves the weights unchanged."""
        ...

    def __call__(
        self, scores: Tensor, mask: Tensor | None = None, position_info: PositionInfo | None = None
    ) -> Aligned:
        """Weights of every key for every query; zeros for a query that may attend to no key."""
        ...


@runtime_checkable
class Aggregation(Protocol):
    """Weights and values to the context; keys that are not allowed contribute nothing."""

    def __call__(self, weights: Tensor, values: Tensor, allowed: Tensor | None = None) -> Tensor:
        """The context of every query, [.., Q, output]; None allows every key."""
        ...


@runtime_checkable
class Cache(Protocol):
    """Keys and values of earlier positions. `append` returns the next cache and leaves this one as it is."""

    @property
    def keys(self) -> Tensor | None:
        """Prepared keys in the cache, oldest first; None in an empty cache."""
        ...

    @property
    def values(self) -> Tensor | None:
        """Values of these keys."""
        ...

    @property
    def first(self) -> int:
        """Position of the oldest key in the cache."""
        ...

    @property
    def length(self) -> int:
        """Number of positions appended so far, including those no longer in the cache."""
        ...

    def append(self, keys: Tensor, values: Tensor) -> "Cache":
        """The cache with more positions."""
        ...


@register_pytree
@dataclass(frozen=True, kw_only=True)
class Attended:
    """The result of an attention: the context, and what else was requested or applies."""

    context: Float[Tensor, "... Q value"]
    # all queries if all weights were requested, else one query for each requested index
    weights: Float[Tensor, "... requested K"] | None = None
    sample_log_prob: Float[Tensor, "... Q"] | None = None
    cache: Any = None


# a class and no protocol: a scheme may have parameters, which only a submodule registers
class PositionScheme(nn.Module):
    """A position scheme inside the heads of self-attention; subclasses override what they change."""

    needs_weights: bool = False
    """True if `context_term` is to be added to the context, for which the weights must be formed."""

    def transform(
        self, vectors: Float[Tensor, "*B L size"], positions: Int[Tensor, " L"]
    ) -> Float[Tensor, "*B L size"]:
        """Queries or keys as the score compares them; unchanged by default."""
        return vectors

    def bias(
        self, queries: Float[Tensor, "*B Q size"], query_positions: Int[Tensor, " Q"], key_positions: Int[Tensor, " K"]
    ) -> Float[Tensor, "..."] | None:
        """A term added to the scores, if any."""
        return None

    def context_term(
        self,
        weights: Float[Tensor, "*B Q K"],
        query_positions: Int[Tensor, " Q"],
        key_positions: Int[Tensor, " K"],
    ) -> Float[Tensor, "*B Q size"]:
        """A term added to the context, if `needs_weights`."""
        raise NotImplementedError(f"{type(self).__name__} adds nothing to the context")
