"""A trained model that takes words."""

from dataclasses import dataclass
from typing import Any

import torch

from regard.contracts.inspection import Axis, ClassesPanel, Inspection, Response, Title
from regard.tasks import describe_run
from regard.tasks.text_classification import Classification

from .evaluate import evaluate
from .run import LETTERS, WordRun, last_letters

CLASSES = ("consonant", "vowel")


@dataclass(frozen=True, kw_only=True)
class WordClassifier:
    """A model; it needs no tokenizer."""

    model: Any
    run: WordRun

    @property
    def device(self):
        return next(self.model.parameters()).device

    def parse(self, data):
        word = data.decode() if isinstance(data, bytes) else data
        if not word or word[-1] not in LETTERS:
            raise ValueError(f"{word!r} does not end in a letter. Give a word.")
        return word

    def predict(self, inputs, *, return_weights=False):
        words = [self.parse(word) for word in inputs]
        with torch.inference_mode():
            shares = self.model(last_letters(words, self.device)).double().softmax(dim=-1).tolist()
        answers = []
        for row in shares:
            probabilities = dict(zip(CLASSES, row, strict=True))
            label = max(probabilities, key=probabilities.get)
            answers.append(Classification(label=label, probability=probabilities[label], probabilities=probabilities))
        return answers

    def score(self, inputs, outputs):
        answers = zip(self.predict(inputs), outputs, strict=True)
        return [torch.tensor(answer.probabilities[label]).log().item() for answer, label in answers]

    def inspect(self, data, output=None, *, max_numbers=None):
        (answer,) = self.predict([data])
        shares = tuple(answer.probabilities.values())
        return Inspection(
            input=data,
            output=answer.label,
            forced=False,
            log_prob=self.score([data], [answer.label])[0],
            axes=(Axis(name="word", kind="tokens", title=Title(en="Word", zh="词"), labels=tuple(data)),),
            sites=(),
            maps={},
            panels=(ClassesPanel(labels=CLASSES, logits=shares, probabilities=shares),),
        )

    def respond(self, inspection, around):
        with around():
            again = self.inspect(inspection.input)
            (first,) = self.score([inspection.input], [inspection.output])
        return Response(output=again.output, tokens=(again.output,), log_prob=again.log_prob, log_prob_of_first=first)

    def evaluate(self, examples, *, split, steps=0):
        return evaluate(self, examples, split=split, steps=steps)

    def samples(self):
        return ["banana", "tree", "moon"]

    @property
    def description(self):
        return describe_run(self.run)

    def unknown_in(self, text, *, is_output=False):
        return []
