"""From a run to a training setup, and from a folder to a predictor."""

from dataclasses import dataclass
from functools import cached_property

import torch
import torch.nn.functional as F
from torch import nn

from regard.data.batching import BucketedOrder, RowBudget, share
from regard.tasks import TrainingSetup

from .predictor import CLASSES, WordClassifier
from .run import last_letters


@dataclass(frozen=True)
class WordBatch:
    """Last letters with their classes."""

    letters: torch.Tensor
    labels: torch.Tensor


class WordObjective(nn.Module):
    """Batch to summed loss in nats."""

    def __init__(self, model, *, label_smoothing=0.0):
        super().__init__()
        self.model = model

    def forward(self, batch):
        return F.cross_entropy(self.model(batch.letters), batch.labels, reduction="sum")


@dataclass(frozen=True)
class WordData:
    """Words as training takes them."""

    examples: list

    @cached_property
    def order(self):
        lengths = torch.ones(len(self.examples), 2, dtype=torch.long).numpy()
        return BucketedOrder(lengths, budget=RowBudget(16))

    def share(self, indices, part, of):
        return share(indices, part, of)

    def num_tokens(self, indices):
        return len(indices)

    def make(self, indices):
        words, labels = zip(*(self.examples[index] for index in indices), strict=True)
        return WordBatch(last_letters(words), torch.tensor([CLASSES.index(label) for label in labels]))


def setup(run, checkpoint, *, resume, notify):
    """Read the words; no tokenizer is trained."""
    validation = run.data.read("validation")
    notify("train", f"{run.data.count} words.")

    def validate(model):
        batch = WordData(validation).make(range(len(validation)))
        device = next(model.parameters()).device
        with torch.no_grad():
            logits = model(batch.letters.to(device)).cpu()
        return {"loss": F.cross_entropy(logits, batch.labels).item()}

    return TrainingSetup(
        run=run,
        files={},
        data=WordData(run.data.read("train")),
        validate=validate,
        example=validation[0][0],
        objective=WordObjective,
    )


def open_classifier(run, model, checkpoint):
    return WordClassifier(model=model, run=run)


def read_examples(run, source):
    """A split, or the lines of a file: a word and its class."""
    if source.source is not None:
        return {"file": [tuple(line.split()) for line in source.source.read_text().splitlines()]}
    return {source.split or "test": run.data.read(source.split or "test")}


def example_command(run, folder, example):
    return f"regard classify {folder} {example}"
