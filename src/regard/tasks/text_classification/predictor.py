"""The text classifier: a trained model with its tokenizer.

classifier = regard.load("runs/trec")
print(classifier.classify(["What is the capital of France ?"])[0])
"""

import math
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard._utils import check_name
from regard.contracts import (
    UNK,
    Around,
    Description,
    Inspection,
    PaddedTokens,
    Report,
    Response,
    device_of,
    evaluating,
    to_double,
)
from regard.data.corpora import class_titles, samples_of
from regard.data.text import Sentence, Tokenizer, unknown_in
from regard.fused import fuse
from regard.tasks.base import check_pairs, check_texts, parse_text
from regard.tasks.text_classification.evaluate import evaluate_sentences
from regard.tasks.text_classification.inspection import inspect_sentence, respond_sentence
from regard.tasks.text_classification.run import TextClassificationRun, describe_classifier

SENTENCES_AT_ONCE = 64


@dataclass(frozen=True, kw_only=True)
class Classification:
    """The class of an input with the probabilities of all classes; the output of every classification task.

    `weights` are attention weights of shape (rows, tokens); None if the model has none or they were not requested.
    `num_dropped` is the number of tokens beyond the maximum length. `unknown` are the distinct parts of the text that
    are not in the vocabulary. `names` are the English names of the labels, if the classes have any.
    """

    label: str
    probability: float
    probabilities: dict[str, float]
    names: Mapping[str, str] = field(default_factory=dict)
    tokens: tuple[str, ...] = ()
    weights: Float[Tensor, "rows L"] | None = None
    num_dropped: int = 0
    unknown: tuple[str, ...] = ()

    def __str__(self) -> str:
        return self.label

    @property
    def name(self) -> str:
        """The name of the class, or its label if it has no name."""
        return self.names.get(self.label, self.label)


@dataclass(frozen=True, kw_only=True)
class TextClassifier:
    """A model with its tokenizer and the run that trained it. `fused=False` disables fused implementations."""

    model: Any
    tokenizer: Tokenizer
    run: TextClassificationRun
    fused: bool = True

    def classify(self, texts: Sequence[str], *, return_weights: bool = False) -> list[Classification]:
        """Classify each text; an empty text gets the class that the model gives to an empty input.

        A text over the maximum length of training is truncated (`num_dropped`).
        """
        check_texts(texts, "texts")
        outputs: list[Classification] = []
        for first in range(0, len(texts), SENTENCES_AT_ONCE):
            outputs += self._classify(texts[first : first + SENTENCES_AT_ONCE], return_weights)
        return outputs

    def predict(self, inputs: Sequence[str], *, return_weights: bool = False) -> list[Classification]:
        """Same as `classify`."""
        return self.classify(inputs, return_weights=return_weights)

    def score(self, inputs: Sequence[str], outputs: Sequence[str]) -> list[float]:
        """log p(class | text) of each pair, in nats."""
        check_pairs(inputs, outputs, ("texts", "classes"))
        for label in outputs:
            check_name(label, self.run.classes, "class")
        pairs = zip(self.predict(inputs), outputs, strict=True)
        # the smallest normal number instead of 0, which has no logarithm
        return [math.log(max(prediction.probabilities[label], sys.float_info.min)) for prediction, label in pairs]

    def evaluate(self, examples: Sequence[Sentence], *, split: str, steps: int = 0) -> Report:
        """Accuracy, F1, log-loss and the confusion table."""
        return evaluate_sentences(self, examples, self.tokenizer, split=split, steps=steps)

    def _classify(self, texts: Sequence[str], return_weights: bool) -> list[Classification]:
        whole = self.tokenizer.encode_batch(texts)
        rows = [row[: self.run.batch.max_length] for row in whole]
        batch = PaddedTokens.from_lists(rows).to(self.device)
        with evaluating(self.model):
            output = (fuse(self.model) if self.fused else self.model)(batch)
            # float64, so that the probabilities of many classes sum to one
            batch_probabilities = torch.softmax(to_double(output.logits), dim=-1).cpu()
            # a row with one NaN logit is NaN everywhere
            if bool((is_nan := batch_probabilities.isnan().any(dim=1)).any()):
                raise ValueError(
                    f"the model gives NaN for {texts[int(is_nan.int().argmax())]!r}: its parameters are not finite. "
                    f"Load an earlier checkpoint."
                )
            weights = output.weights.cpu() if return_weights and output.weights is not None else None
        outputs = []
        names = {label: title.en for label, title in class_titles(self.run.data, self.run.classes).items()}
        for number, row in enumerate(rows):
            probabilities = dict(zip(self.run.classes, batch_probabilities[number].tolist(), strict=True))
            label = max(probabilities, key=probabilities.__getitem__)
            outputs.append(
                Classification(
                    label=label,
                    probability=probabilities[label],
                    probabilities=probabilities,
                    names=names,
                    tokens=tuple(self.tokenizer.tokens(row)),
                    # cloned, so that one result does not keep the batch alive
                    weights=None if weights is None else weights[number, :, : len(row)].clone(),
                    num_dropped=len(whole[number]) - len(row),
                    # only rows with <unk> can have unknown parts
                    unknown=tuple(unknown_in(texts[number], self.tokenizer)) if UNK in row else (),
                )
            )
        return outputs

    def parse(self, data: str | bytes) -> str:
        """A text to classify; bytes are UTF-8."""
        return parse_text(data)

    def inspect(self, data: str, output: str | None = None, *, max_numbers: int | None = None) -> Inspection:
        """Every attention over the text, and the probability of every class."""
        check_texts([data], "inputs")
        if output is not None:
            raise ValueError("a classifier takes no output: it predicts one of its classes. Leave out the output.")
        return inspect_sentence(
            self,
            data,
            labels=self.run.classes,
            titles=tuple(class_titles(self.run.data, self.run.classes).values()),
            max_length=self.run.batch.max_length,
            max_numbers=max_numbers,
        )

    def respond(self, inspection: Inspection, around: Around) -> Response:
        """The class inside `around()`, and the log-probability of the inspection's class there."""
        return respond_sentence(self, inspection, around)

    def samples(self) -> list[str]:
        """Example texts for the corpus of the run."""
        return samples_of(self.run.data)

    def unknown_in(self, text: str, *, is_output: bool = False) -> list[str]:
        """The distinct parts of a text that are not in the vocabulary; classes have no vocabulary."""
        check_texts([text], "texts")
        return [] if is_output else unknown_in(text, self.tokenizer)

    @property
    def description(self) -> Description:
        """What the sentences are, and the names of the classes."""
        return describe_classifier(self.run)

    @property
    def device(self) -> torch.device:
        """Device of the model's parameters."""
        return device_of(self.model)
