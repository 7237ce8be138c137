"""The quality of a classifier: accuracy, precision, recall, confusions, and how much its attention rows overlap.

    precision = correct / predicted,   recall = correct / true,   F1 = 2 correct / (predicted + true)
    log-loss  = - mean log p(true class)
    overlap   = mean cosine between two rows of A, and ||A A^T - I||_F^2 (Lin et al. 2017, section 2.2)

A class that training never saw can only be wrong: it counts in accuracy and has a row of its own in the confusion
table, but no column. Its probability is not 0 but unknown, so the log-loss is over the other sentences.

Shapes: N sentences, B batch, L words.
"""

import math
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.contracts import PaddedTokens


@dataclass(frozen=True)
class Overlap:
    """Of the rows of attention, as means over the sentences that have words.

    `cosine` is the mean over all pairs of rows: 0 where none shares a word with another, 1 where all are alike.
    `penalty` is ||A A^T - I||_F^2, without its coefficient.
    """

    cosine: float
    penalty: float


@dataclass(frozen=True, kw_only=True)
class Answers:
    """Predictions for many sentences: the log-probability of every class, and how the attention rows overlap."""

    log_probs: Float[Tensor, "N classes"]
    overlap: Overlap | None = None


@dataclass(frozen=True)
class ClassQuality:
    """Counts and quality of one class; a quotient is None where its denominator is 0."""

    label: str
    num_true: int
    num_predicted: int
    num_correct: int
    precision: float | None
    recall: float | None
    f1: float | None

    @classmethod
    def of(cls, label: str, *, num_true: int, num_predicted: int, num_correct: int) -> "ClassQuality":
        """From the counts."""
        quotients = (
            (num_correct, num_predicted),
            (num_correct, num_true),
            (2 * num_correct, num_predicted + num_true),
        )
        values = (part / whole if whole else None for part, whole in quotients)
        return cls(label, num_true, num_predicted, num_correct, *values)


@dataclass(frozen=True)
class ConfusionRow:
    """Sentences of one true class: how often each class was predicted, in the order of the model's classes."""

    label: str
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ClassificationQuality:
    """Predictions compared with the true classes; `unseen` are the rows of classes that training never saw."""

    accuracy: float
    log_loss: float | None
    classes: tuple[ClassQuality, ...]
    confusion: tuple[ConfusionRow, ...]
    unseen: tuple[ConfusionRow, ...] = ()
    overlap: Overlap | None = None

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that are true or predicted anywhere."""
        scores = [quality.f1 for quality in self.classes if quality.f1 is not None]
        return sum(scores) / len(scores) if scores else 0.0


def overlap_sums(weights: Float[Tensor, "B rows L"], sentences: PaddedTokens) -> Float[Tensor, "3"]:
    """Cosine and penalty summed over the sentences that have words, and how many those are."""
    rows = weights.shape[1]
    real = sentences.lengths > 0
    gram = weights @ weights.transpose(1, 2)
    directions = F.normalize(weights, dim=-1)
    cosines = directions @ directions.transpose(1, 2)
    apart = ~torch.eye(rows, dtype=torch.bool, device=weights.device)
    cosine = (cosines * apart).sum(dim=(1, 2)) / (rows * (rows - 1))
    penalty = (gram - (~apart).to(gram.dtype)).square().sum(dim=(1, 2))
    return torch.stack([(cosine * real).sum(), (penalty * real).sum(), real.sum().to(cosine.dtype)])


def classification_quality(answers: Answers, truths: Sequence[str], classes: Sequence[str]) -> ClassificationQuality:
    """Answers beside the true labels, in the same order; `classes` are the model's own, in the order of its logits."""
    check_answers(answers, truths, classes)
    predictions = [classes[index] for index in answers.log_probs.argmax(dim=-1).tolist()]
    pairs = Counter(zip(truths, predictions, strict=True))
    num_true, num_predicted = Counter(truths), Counter(predictions)
    indices = {label: index for index, label in enumerate(classes)}
    losses = [
        -float(row[indices[truth]]) for row, truth in zip(answers.log_probs, truths, strict=True) if truth in indices
    ]

    def row(truth: str) -> ConfusionRow:
        return ConfusionRow(truth, tuple(pairs[truth, label] for label in classes))

    return ClassificationQuality(
        accuracy=sum(pairs[label, label] for label in classes) / len(truths),
        log_loss=math.fsum(losses) / len(losses) if losses else None,
        classes=tuple(
            ClassQuality.of(
                label,
                num_true=num_true[label],
                num_predicted=num_predicted[label],
                num_correct=pairs[label, label],
            )
            for label in classes
        ),
        confusion=tuple(row(label) for label in classes),
        unseen=tuple(row(label) for label in sorted(set(truths) - set(classes))),
        overlap=answers.overlap,
    )


def check_answers(answers: Answers, truths: Sequence[str], classes: Sequence[str]) -> None:
    """Refuse counts that do not agree, and answers that are no numbers."""
    count, columns = answers.log_probs.shape
    if not truths:
        raise ValueError("there is nothing to evaluate: no sentences. Give at least one.")
    if count != len(truths):
        raise ValueError(f"there are {count} answers but {len(truths)} true labels. Give one for each.")
    if columns != len(classes) or len(set(classes)) != len(classes):
        raise ValueError(
            f"the model tells {columns} classes apart but {len(set(classes))} are named: {', '.join(classes)}. "
            f"Name each class once, in the order of the logits."
        )
    wrong = answers.log_probs.isnan().any(dim=-1).nonzero()
    if len(wrong):
        raise ValueError(
            f"the model gives NaN for sentence {int(wrong[0])}: its parameters are not finite, or overflow in this "
            f"precision. Load an earlier checkpoint, or evaluate in float32."
        )
