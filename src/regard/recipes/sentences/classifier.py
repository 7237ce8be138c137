"""A trained model that takes sentences and gives their classes.

classifier = regard.load("runs/trec")
print(classifier.classify(["What is the capital of France ?"])[0])
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.contracts import UNK, Sequences, map_tensors
from regard.data import Tokenizer
from regard.data.streams import unknown_in
from regard.decoding import device_of, evaluating
from regard.fused import fuse
from regard.recipes.sentences.run import SentenceRun
from regard.recipes.translator import check_texts

SENTENCES_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The class of a sentence, how sure the model is of it and of the others, and what it looked at.

    `weights` has a row for every row of attention and a column for every token; None where the system has none, or was
    not asked. `unknown` is what of the text the vocabulary does not know, each once.
    """

    label: str
    probability: float
    probabilities: dict[str, float]
    tokens: tuple[str, ...]
    weights: Float[Tensor, "rows L"] | None = None
    num_dropped: int = 0
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, kw_only=True)
class Classifier:
    """A model with its tokenizer; `config` is the run that made it. `fused=False` uses the model's own code only."""

    model: Any
    tokenizer: Tokenizer
    config: SentenceRun
    fused: bool = True

    def classify(self, texts: Sequence[str], *, return_attention: bool = False) -> list[Classification]:
        """The class of each text; one without a word gets the class that the model gives to nothing.

        A text of more tokens than the model learned from is cut off there, which `num_dropped` tells.
        """
        check_texts(texts, "texts")
        found: list[Classification] = []
        for first in range(0, len(texts), SENTENCES_AT_ONCE):
            found += self._classify(texts[first : first + SENTENCES_AT_ONCE], return_attention)
        return found

    def _classify(self, texts: Sequence[str], return_attention: bool) -> list[Classification]:
        longest = self.config.batch.max_length
        whole = self.tokenizer.encode_batch(texts)
        rows = [row[:longest] for row in whole]
        given = map_tensors(lambda tensor: tensor.to(self.device), Sequences.of(rows))
        with evaluating(self.model):
            said = (fuse(self.model) if self.fused else self.model)(given)
            shares = torch.softmax(said.logits.double(), dim=-1).cpu()
            if bool((lost := shares.isnan().any(dim=1)).any()):
                raise ValueError(
                    f"the model gives NaN for {texts[int(lost.int().argmax())]!r}: its parameters are not finite. Load "
                    f"an earlier checkpoint."
                )
            weights = said.weights.cpu() if return_attention and said.weights is not None else None
        found = []
        for number, row in enumerate(rows):
            probabilities = dict(zip(self.config.classes, shares[number].tolist(), strict=True))
            label = max(probabilities, key=probabilities.__getitem__)
            found.append(
                Classification(
                    label=label,
                    probability=probabilities[label],
                    probabilities=probabilities,
                    tokens=tuple(self.tokenizer.tokens(row)),
                    weights=None if weights is None else weights[number, :, : len(row)].clone(),
                    num_dropped=len(whole[number]) - len(row),
                    unknown=tuple(unknown_in(texts[number], self.tokenizer)) if UNK in row else (),
                )
            )
        return found

    @property
    def device(self) -> torch.device:
        """Where the model is."""
        return device_of(self.model)
