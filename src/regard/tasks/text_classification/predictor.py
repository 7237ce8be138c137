"""A trained model that classifies sentences.

classifier = regard.load("runs/trec")
print(classifier.classify(["What is the capital of France ?"])[0])
"""

import math
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard._utils import check_name
from regard.contracts import UNK, Around, Inspection, PaddedTokens, Report, Response, device_of, evaluating, map_tensors
from regard.data.corpora import samples_of
from regard.data.text import Sentence, Tokenizer, unknown_in
from regard.fused import fuse
from regard.tasks.base import check_pairs, check_texts, parse_text
from regard.tasks.text_classification.evaluate import evaluate_sentences
from regard.tasks.text_classification.inspection import inspect_sentence, respond_sentence
from regard.tasks.text_classification.run import TextClassificationRun

SENTENCES_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The class of an input, with the probabilities of all classes: the output of every task that classifies.

    `weights` has a row for every row of attention and a column for every token; None where the model has none, or they
    were not requested. `unknown` are the parts of the text that the vocabulary does not know, each once.
    """

    label: str
    probability: float
    probabilities: dict[str, float]
    tokens: tuple[str, ...] = ()
    weights: Float[Tensor, "rows L"] | None = None
    num_dropped: int = 0
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, kw_only=True)
class TextClassifier:
    """A model with its tokenizer; `run` is what it was trained by. `fused=False` runs the model's own code only."""

    model: Any
    tokenizer: Tokenizer
    run: TextClassificationRun
    fused: bool = True

    def classify(self, texts: Sequence[str], *, return_weights: bool = False) -> list[Classification]:
        """The class of each text; one without a word gets the class that the model gives to nothing.

        A text of more tokens than the model learned from is cut off there, which `num_dropped` tells.
        """
        check_texts(texts, "texts")
        found: list[Classification] = []
        for first in range(0, len(texts), SENTENCES_AT_ONCE):
            found += self._classify(texts[first : first + SENTENCES_AT_ONCE], return_weights)
        return found

    def predict(self, inputs: Sequence[str], *, return_weights: bool = False) -> list[Classification]:
        """As `classify`."""
        return self.classify(inputs, return_weights=return_weights)

    def score(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[float]:
        """log p(class | text) of each pair, in nats."""
        check_pairs(inputs, outputs, ("texts", "classes"))
        for label in outputs:
            check_name(label, self.run.classes, "class")
        answers = zip(self.predict(inputs), outputs, strict=True)
        return [math.log(max(answer.probabilities[label], sys.float_info.min)) for answer, label in answers]

    def evaluate(self, examples: Sequence[Sentence], *, split: str, steps: int = 0) -> Report:
        """Accuracy, F1, log-loss and the confusion table."""
        return evaluate_sentences(self, examples, self.tokenizer, split=split, steps=steps)

    def _classify(self, texts: Sequence[str], return_weights: bool) -> list[Classification]:
        longest = self.run.batch.max_length
        whole = self.tokenizer.encode_batch(texts)
        rows = [row[:longest] for row in whole]
        given = map_tensors(lambda tensor: tensor.to(self.device), PaddedTokens.from_lists(rows))
        with evaluating(self.model):
            said = (fuse(self.model) if self.fused else self.model)(given)
            shares = torch.softmax(said.logits.double(), dim=-1).cpu()
            if bool((lost := shares.isnan().any(dim=1)).any()):
                raise ValueError(
                    f"the model gives NaN for {texts[int(lost.int().argmax())]!r}: its parameters are not finite. Load "
                    f"an earlier checkpoint."
                )
            weights = said.weights.cpu() if return_weights and said.weights is not None else None
        found = []
        for number, row in enumerate(rows):
            probabilities = dict(zip(self.run.classes, shares[number].tolist(), strict=True))
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

    def parse(self, data: str | bytes) -> str:
        """A text to classify; bytes are UTF-8."""
        return parse_text(data)

    def inspect(self, data: str, output: str | None = None, *, max_numbers: int | None = None) -> Inspection:
        """Every attention over the text, and the probability of every class."""
        check_texts([data], "inputs")
        if output is not None:
            raise ValueError("a classifier predicts one of its classes; none can be given. Leave the output out.")
        return inspect_sentence(
            self, data, labels=self.run.classes, max_length=self.run.batch.max_length, max_numbers=max_numbers
        )

    def respond(self, inspection: Inspection, around: Around) -> Response:
        """The class inside `around()`, and the log-probability of the inspection's class there."""
        return respond_sentence(self, inspection, around)

    def samples(self) -> list[str]:
        """Texts of the kind that the corpus has."""
        return samples_of(self.run.data)

    @property
    def device(self) -> torch.device:
        """Device of the model's parameters."""
        return device_of(self.model)
