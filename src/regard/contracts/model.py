"""What decoding, training, tracing and serving need of a model, and nothing more."""

from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts.sequences import Sequences


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of decoding: what comes next, the state after it, and where the model looked in the source."""

    logits: Float[Tensor, "B vocab"]
    state: Any
    alignment: Float[Tensor, "B source"] | None = None


@runtime_checkable
class Model(Protocol):
    """A system that reads a source and writes a target, one token at a time or all at once."""

    def encode(self, source: Any) -> Any:
        """Read the source once; the result is a nest of batch-first tensors."""
        ...

    def start(self, encoded: Any) -> Any:
        """The decoder's state before its first token."""
        ...

    def step(self, tokens: Int[Tensor, " B"], state: Any, encoded: Any) -> Step:
        """Read one target token and predict the next."""
        ...

    def forward(self, source: Any, target: Sequences) -> Float[Tensor, "B T vocab"]:
        """Logits for every target position, given the true previous tokens."""
        ...
