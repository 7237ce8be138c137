"""Model protocols: what decoding, training, tracing and serving use of a model, a language model and a classifier.

State is an argument and a result. A language model has no source, and may read a text token by token, at once or in
pieces with the same result: training carries the state from one segment to the next, generation continues behind the
prompt.
"""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts.pytree import register_pytree
from regard.contracts.sources import PackedTokens, PaddedTokens


@register_pytree
@dataclass(frozen=True, kw_only=True)
class Step:
    """One decoding step: logits of the next token, the state after it, and the attention to the source."""

    logits: Float[Tensor, "B vocab"]
    # opaque to callers, which reorder it with `select_batch` alone
    state: Any
    weights: Float[Tensor, "B source"] | None = None


@register_pytree
@dataclass(frozen=True, kw_only=True)
class ModelOutput:
    """Input of the output layer at every position, and what else a model returns for training.

    state: after the last position.
    weights: attention weights.
    sample_log_prob: log-probability of sampled attention, for REINFORCE.
    penalty: a term of the loss, summed over the batch and already multiplied by its coefficient.
    """

    # (B, T, size), or (N, size) for a packed target
    features: Float[Tensor, "... size"]
    state: Any = None
    weights: Float[Tensor, "..."] | None = None
    sample_log_prob: Float[Tensor, "..."] | None = None
    penalty: Float[Tensor, ""] | None = None


@runtime_checkable
class OutputLayer(Protocol):
    """The last layer: features to logits, or to the loss without forming all logits."""

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
    """A model that maps a source to a target sequence, step by step or, with teacher forcing, all at once."""

    def encode(self, source: Any) -> Any:
        """Encode the source once; the result is a pytree of batch-first tensors."""
        ...

    def start(self, encoded: Any) -> Any:
        """The decoder's state before its first token."""
        ...

    def step(self, tokens: Int[Tensor, " B"], state: Any, encoded: Any) -> Step:
        """Consume one target token and predict the next."""
        ...

    def features(self, source: Any, target: PaddedTokens | PackedTokens) -> ModelOutput:
        """Input of the output layer at every target position, under teacher forcing.

        A model that supports packed batches returns packed features for them.
        """
        ...

    if TYPE_CHECKING:
        # a submodule is no class attribute, which is what a run-time check of the protocol would require
        @property
        def readout(self) -> OutputLayer:
            """The output layer, which maps features to logits."""
            ...

    def forward(
        self, source: Any, target: PaddedTokens | PackedTokens
    ) -> Float[Tensor, "B T vocab"] | Float[Tensor, "N vocab"]:
        """Logits at every target position, under teacher forcing."""
        ...


@runtime_checkable
class LanguageModel(Protocol):
    """A model that predicts the next token of a text.

    `features` from a state equals repeated `step`. A state is a pytree of batch-first tensors; where training carries
    it, its shapes do not depend on the number of tokens.
    """

    def start(self, batch_size: int) -> Any:
        """The state before the first token, on the model's device."""
        ...

    def step(self, tokens: Int[Tensor, " B"], state: Any) -> Step:
        """Consume one token and predict the next."""
        ...

    def features(self, tokens: Int[Tensor, "B T"], state: Any) -> ModelOutput:
        """Process many tokens, in parallel where the model allows it; the output has features and state."""
        ...

    if TYPE_CHECKING:
        # as in Model
        @property
        def readout(self) -> OutputLayer:
            """The output layer, which maps features to logits."""
            ...

    def forward(self, tokens: Int[Tensor, "B T"]) -> Float[Tensor, "B T vocab"]:
        """Logits after every token, from the initial state."""
        ...


@runtime_checkable
class StepFunction(Protocol):
    """Steps of one text, token after token: a model's own, or those of a captured graph with its own buffers.

    A language model may offer `step_function(state, limit)`, which continues from a state for at most `limit` tokens;
    the result may be None. `LanguageModel.step` cannot express it, since buffers are overwritten in place.
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


@register_pytree
@dataclass(frozen=True, kw_only=True)
class ClassifierOutput:
    """Logits of every class; of models with attention, its weights over the tokens, 0 on padding.

    `penalty` is a term of the loss, summed over the sentences and already multiplied by its coefficient.
    """

    logits: Float[Tensor, "B classes"]
    weights: Float[Tensor, "B rows L"] | None = None
    penalty: Float[Tensor, ""] | None = None


@runtime_checkable
class Classifier(Protocol):
    """A model that assigns a sentence to a class."""

    def forward(self, sentences: PaddedTokens) -> ClassifierOutput:
        """Classify every sentence; neither padding nor other sentences of the batch change its output."""
        ...
