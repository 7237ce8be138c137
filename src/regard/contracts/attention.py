"""What the parts of attention hand each other: score -> align -> aggregate.

Shapes: *B any leading dimensions (batch; batch and heads), Q queries, K keys.
"""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.contracts.sources import PackedTokens


@dataclass(frozen=True, kw_only=True)
class Memory:
    """What one attention reads: keys already prepared by its score, the values, and which keys may be read.

    With `packed` they lie end to end, (N, heads, size), and it says where each row begins.
    """

    keys: Float[Tensor, "... K key"]
    values: Float[Tensor, "... K value"]
    mask: Bool[Tensor, "... K"] | None = None
    packed: PackedTokens | None = None


@dataclass(frozen=True, kw_only=True)
class PositionInfo:
    """Where a query stands, for alignments that must know it (Luong's local forms, the fixed diagonal).

    `attend` fills in the queries. Left out, lengths are read off the mask and keys are counted from 0; positions must
    be given where they are needed, for a decoder that asks one step at a time has no others.
    """

    queries: Float[Tensor, "... Q query"] | None = None
    positions: Int[Tensor, "... Q"] | None = None
    lengths: Int[Tensor, "..."] | None = None
    target_lengths: Int[Tensor, "..."] | None = None
    key_positions: Int[Tensor, " K"] | None = None


@dataclass(frozen=True, kw_only=True)
class Aligned:
    """The distribution an alignment gives; sampled forms add the log-probability of their choice."""

    weights: Float[Tensor, "... Q K"]
    log_prob: Float[Tensor, "... Q"] | None = None


@dataclass(frozen=True, kw_only=True)
class Lowered:
    """The same scores as one dot product: scale * queries . keys + key_bias + bias.

    `key_bias` is one number per key, whoever asks; `bias` broadcasts to [.., Q, K]. `drops_row_constant` says that a
    term equal for all keys of a query was left out, which an alignment must ignore for the lowering to be used.
    """

    queries: Float[Tensor, "... Q size"]
    keys: Float[Tensor, "... K size"]
    scale: float = 1.0
    key_bias: Float[Tensor, "... K"] | None = None
    bias: Float[Tensor, "..."] | None = None
    drops_row_constant: bool = False


@dataclass(frozen=True, kw_only=True)
class LoweredSum:
    """The same scores as a sum through a tanh: energy . tanh(queries + keys)."""

    queries: Float[Tensor, "... Q H"]
    keys: Float[Tensor, "... K H"]
    energy: Float[Tensor, " H"]


@dataclass(frozen=True, kw_only=True)
class LoweredSquare:
    """The same scores as a squared distance: -1/2 |width (queries - keys)|^2, one width or one for each dimension."""

    queries: Float[Tensor, "... Q size"]
    keys: Float[Tensor, "... K size"]
    width: Float[Tensor, "..."]


@runtime_checkable
class Score(Protocol):
    """How well does each key answer each query?

    `forward` is the definition; `lower` hands the same numbers to a fused kernel, or says why it cannot.
    """

    def prepare(self, keys: Tensor) -> Tensor:
        """What can be computed from the keys alone, once."""
        ...

    def lower(self, queries: Tensor, keys: Tensor) -> Lowered | LoweredSum | LoweredSquare | str:
        """The same scores as a fused kernel knows them, or the reason why they must be formed."""
        ...

    def __call__(self, queries: Tensor, keys: Tensor) -> Tensor:
        """Scores of every query against every prepared key, [.., Q, K]."""
        ...


@runtime_checkable
class Alignment(Protocol):
    """Scores to weights over the keys one may look at; a score of -inf is a key one may not."""

    @property
    def ignores_row_constant(self) -> bool:
        """Whether a constant added to all scores of a query changes nothing."""
        ...

    def __call__(
        self, scores: Tensor, mask: Tensor | None = None, position_info: PositionInfo | None = None
    ) -> Aligned:
        """Weights of every key for every query; a query with nothing to look at gets zeros."""
        ...


@runtime_checkable
class Cache(Protocol):
    """Keys and values of the positions read so far; `append` gives the next cache, this one stays as it is."""

    @property
    def keys(self) -> Tensor | None:
        """Prepared keys still held, oldest first; None where nothing was read."""
        ...

    @property
    def values(self) -> Tensor | None:
        """Their values."""
        ...

    @property
    def first(self) -> int:
        """The position of the oldest key still held."""
        ...

    @property
    def length(self) -> int:
        """How many positions were ever read."""
        ...

    def append(self, keys: Tensor, values: Tensor) -> "Cache":
        """The cache after reading more positions."""
        ...


@dataclass(frozen=True, kw_only=True)
class Attended:
    """What came back: the context, and the weights, log-probability and cache where they were asked for."""

    context: Float[Tensor, "... Q value"]
    weights: Float[Tensor, "... looking K"] | None = None
    log_prob: Float[Tensor, "... Q"] | None = None
    cache: Any = None


class PositionScheme(nn.Module):
    """A scheme that changes nothing, for schemes to say where they differ."""

    def turn(self, vectors: Float[Tensor, "*B L size"], positions: Int[Tensor, " L"]) -> Float[Tensor, "*B L size"]:
        """Queries and keys as they are compared."""
        return vectors

    def bias(
        self, queries: Float[Tensor, "*B Q size"], query_positions: Int[Tensor, " Q"], key_positions: Int[Tensor, " K"]
    ) -> Float[Tensor, "..."] | None:
        """What is added to the scores."""
        return None

    def extra(
        self, weights: Float[Tensor, "*B Q K"], places: tuple[Int[Tensor, " Q"], Int[Tensor, " K"]]
    ) -> Float[Tensor, "*B Q size"]:
        """What is added to the context, if the scheme `reads_weights`; places are those of queries and keys."""
        raise TypeError(f"{type(self).__name__} adds nothing to the context")

    reads_weights: bool = False
