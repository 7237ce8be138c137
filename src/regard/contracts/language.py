"""What generation, training and evaluation need of a language model: it reads a text and says what comes next.

There is no source. What a model keeps of the text is its state, an argument and a result: a text may be read token by
token, at once, or piece by piece, and the answers are the same. So a training carries the state from one segment to the
next, and generation goes on where the prompt ended.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jaxtyping import Bool, Float, Int
from torch import Tensor

from regard.contracts.model import Readout, Step


@dataclass(frozen=True, kw_only=True)
class Read:
    """Many tokens read at once: what the readout sees behind each, and the state after the last."""

    features: Float[Tensor, "B T size"]
    state: Any


@runtime_checkable
class LanguageModel(Protocol):
    """A system that reads tokens and predicts the next, one token at a time or many at once.

    `read` from a state equals as many steps. A state is a nest of batch-first tensors (select_rows may keep, drop and
    repeat its rows); where a training carries it, its shapes do not depend on how much was read.
    """

    def start(self, num_rows: int) -> Any:
        """The state before the first token, for so many rows, where the model is."""
        ...

    def step(self, tokens: Int[Tensor, " B"], state: Any) -> Step:
        """Read one token and predict the next."""
        ...

    def read(self, tokens: Int[Tensor, "B T"], state: Any) -> Read:
        """Read many tokens, in parallel where the system allows it."""
        ...

    if TYPE_CHECKING:
        # as for Model: a module inside a module is no class attribute
        @property
        def readout(self) -> Readout:
            """The last layer: the logits are the readout of the features."""
            ...

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T vocab"]:
        """Logits behind every token, from the start."""
        ...


@runtime_checkable
class StepFunction(Protocol):
    """One text's steps, token after token: a model's own, or a captured graph's, which has buffers of its own.

    A language model may offer `step_function(state, limit)`, which continues from a state for at most `limit` tokens;
    the answer may be None. `LanguageModel.step` cannot express it, since buffers are overwritten in place.
    """

    can_drop_rows: bool
    """Whether `select_rows` is supported."""

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B vocab"]:
        """Logits after one more token of each batch element, valid until the next call."""
        ...

    def select_rows(self, rows: Int[Tensor, " selected"]) -> None:
        """Continue with these batch elements only."""
        ...

    def close(self) -> None:
        """Release the buffers: no call follows."""
        ...


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
