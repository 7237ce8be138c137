"""What decoding, training, tracing and serving need of a model, and nothing more."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts.packed import Packed
from regard.contracts.sequences import Sequences


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of decoding: what comes next, the state after it, and where the model looked in the source."""

    logits: Float[Tensor, "B vocab"]
    state: Any
    alignment: Float[Tensor, "B source"] | None = None


@runtime_checkable
class Readout(Protocol):
    """A model's last layer: features to logits, or straight to the loss without writing the logits down."""

    def __call__(self, features: Float[Tensor, "*B size"]) -> Float[Tensor, "*B vocab"]:
        """Logits over the target vocabulary."""
        ...

    def loss(
        self, features: Float[Tensor, "*B size"], labels: Int[Tensor, "*B"], *, label_smoothing: float = 0.0
    ) -> Float[Tensor, ""]:
        """Cross-entropy in nats, summed over the labels that are not <pad>."""
        ...


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

    def features(self, source: Any, target: Sequences | Packed) -> Float[Tensor, "B T size"] | Float[Tensor, "N size"]:
        """What the readout sees at every target position, given the true previous tokens.

        A model that works without padding takes packed batches too, and answers in kind.
        """
        ...

    if TYPE_CHECKING:
        # a module inside a module is no class attribute, which is where a run-time check would look for it
        @property
        def readout(self) -> Readout:
            """The last layer: the logits are the readout of the features."""
            ...

    def forward(self, source: Any, target: Sequences | Packed) -> Float[Tensor, "B T vocab"] | Float[Tensor, "N vocab"]:
        """Logits for every target position, given the true previous tokens."""
        ...
