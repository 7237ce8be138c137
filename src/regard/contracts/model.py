"""What decoding, training, tracing and serving need of a model, a language model and a classifier.

What decoding, training, tracing and serving need of a model, and nothing more.

What generation, training and evaluation need of a language model: it reads a text and says what comes next.

There is no source. What a model keeps of the text is its state, an argument and a result: a text may be read token by
token, at once, or piece by piece, and the answers are the same. So a training carries the state from one segment to the
next, and generation goes on where the prompt ended.

What training, evaluation and display need of a system that classifies sentences.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts.sources import PackedTokens, PaddedTokens


@dataclass(frozen=True, kw_only=True)
class Step:
    """One step of decoding: what comes next, the state after it, and where the model looked in the source."""

    logits: Float[Tensor, "B vocab"]
    state: Any
    alignment: Float[Tensor, "B source"] | None = None


@dataclass(frozen=True, kw_only=True)
class ModelOutput:
    """The input of the output layer at every target position, and what else a model computes on the way.

    `state` is a language model's state after the last token. `weights` are attention weights over the source.
    `sample_log_prob` is the log-probability of sampled attention, and `penalty` a term that training adds to the loss,
    summed over the batch and already multiplied by its coefficient.
    """

    features: Float[Tensor, "B T size"] | Float[Tensor, "N size"]
    state: Any = None
    weights: Float[Tensor, "B T source"] | None = None
    sample_log_prob: Float[Tensor, "*B"] | None = None
    penalty: Float[Tensor, ""] | None = None


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

    def features(self, source: Any, target: PaddedTokens | PackedTokens) -> ModelOutput:
        """The input of the output layer at every target position, given the true previous tokens.

        A model that supports packed batches returns packed features for a packed target.
        """
        ...

    if TYPE_CHECKING:
        # a module inside a module is no class attribute, which is where a run-time check would look for it
        @property
        def readout(self) -> Readout:
            """The last layer: the logits are the readout of the features."""
            ...

    def forward(
        self, source: Any, target: PaddedTokens | PackedTokens
    ) -> Float[Tensor, "B T vocab"] | Float[Tensor, "N vocab"]:
        """Logits for every target position, given the true previous tokens."""
        ...


@runtime_checkable
class LanguageModel(Protocol):
    """A system that reads tokens and predicts the next, one token at a time or many at once.

    `features` from a state equals as many steps. A state is a nest of batch-first tensors (select_batch may keep, drop
    and repeat its rows); where a training carries it, its shapes do not depend on how much was read.
    """

    def start(self, batch_size: int) -> Any:
        """The state before the first token, on the model's device."""
        ...

    def step(self, tokens: Int[Tensor, " B"], state: Any) -> Step:
        """Read one token and predict the next."""
        ...

    def features(self, tokens: Int[Tensor, "B T"], state: Any) -> ModelOutput:
        """Process many tokens, in parallel where the system allows it."""
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

    can_select_batch: bool
    """Whether `select_batch` is supported."""

    def __call__(self, tokens: Int[Tensor, " B"]) -> Float[Tensor, "B vocab"]:
        """Logits after one more token of each batch element, valid until the next call."""
        ...

    def select_batch(self, rows: Int[Tensor, " selected"]) -> None:
        """Continue with these batch elements only."""
        ...

    def close(self) -> None:
        """Release the buffers: no call follows."""
        ...


@dataclass(frozen=True, kw_only=True)
class ClassifierOutput:
    """A score for every class; where the system looks at words, its rows of attention over them, 0 on padding.

    `penalty` is what training adds to the loss, summed over the sentences and already times its coefficient.
    """

    logits: Float[Tensor, "B classes"]
    weights: Float[Tensor, "B rows L"] | None = None
    penalty: Float[Tensor, ""] | None = None


@runtime_checkable
class Classifier(Protocol):
    """A system that reads a sentence and says of which class it is."""

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Every sentence by itself: padding and company change nothing."""
        ...
