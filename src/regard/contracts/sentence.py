"""What training, evaluation and display need of a system that classifies sentences."""

from dataclasses import dataclass
from typing import Protocol, runtime_checkable

from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts.sequences import Sequences


@dataclass(frozen=True, kw_only=True)
class Classified:
    """A score for every class; where the system looks at words, its rows of attention over them, 0 on padding.

    `penalty` is what training adds to the loss, summed over the sentences and already times its coefficient.
    """

    logits: Float[Tensor, "B classes"]
    weights: Float[Tensor, "B rows L"] | None = None
    penalty: Float[Tensor, ""] | None = None


@runtime_checkable
class SentenceModel(Protocol):
    """A system that reads a sentence and says of which class it is."""

    def forward(self, sentences: Sequences) -> Classified:
        """Every sentence by itself: padding and company change nothing."""
        ...


@dataclass(frozen=True, kw_only=True)
class Labelled:
    """Sentences with their classes; `num_tokens` counts the classes to be learned, one a sentence."""

    sentences: Sequences
    labels: Int[Tensor, " B"]
    num_tokens: int
