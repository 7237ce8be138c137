"""Quality of a text classifier: accuracy, precision, recall, confusion table, log-loss and overlap of attention rows.

    precision = correct / predicted,   recall = correct / true,   F1 = 2 correct / (predicted + true)
    log-loss  = - mean log p(true class)
    overlap   = mean cosine between two rows of A, and ||A A^T - I||_F^2 (Lin et al. 2017, section 2.2)

A sentence whose true class was not in the training data is always predicted wrongly: it counts in accuracy and has a
row in the confusion table, but no column. Its probability is not 0 but undefined, so the log-loss leaves it out.

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
    """Overlap of the attention rows, as means over the sentences that are not empty.

    `cosine` is the mean over all pairs of rows: 0 if no two rows share a word, 1 if all are equal.
    `penalty` is ||A A^T - I||_F^2, without its coefficient.
    """

    cosine: float
    penalty: float


@dataclass(frozen=True, kw_only=True)
class ClassPredictions:
    """Predictions for N sentences: the log-probability of every class, and the overlap of the attention rows."""

    log_probs: Float[Tensor, "N classes"]
    overlap: Overlap | None = None


@dataclass(frozen=True)
class ClassQuality:
    """Counts and quality of one class; a ratio is None if its denominator is 0."""

    label: str
    num_true: int
    num_predicted: int
    num_correct: int
    precision: float | None
    recall: float | None
    f1: float | None

    @classmethod
    def of(cls, label: str, *, num_true: int, num_predicted: int, num_correct: int) -> "ClassQuality":
        """Compute the ratios from the counts."""
        ratios = (
            (num_correct, num_predicted),
            (num_correct, num_true),
            (2 * num_correct, num_predicted + num_true),
        )
        values = (part / whole if whole else None for part, whole in ratios)
        return cls(label, num_true, num_predicted, num_correct, *values)


@dataclass(frozen=True)
class ConfusionRow:
    """How often each class was predicted for the sentences of one true class, in the order of the model's classes."""

    label: str
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ClassificationQuality:
    """Predictions compared with the true classes; `unseen` has the rows of classes that the model does not have."""

    accuracy: float
    log_loss: float | None
    classes: tuple[ClassQuality, ...]
    confusion: tuple[ConfusionRow, ...]
    unseen: tuple[ConfusionRow, ...] = ()
    overlap: Overlap | None = None

    @property
    def macro_f1(self) -> float:
        """The mean F1 over the classes that are true or predicted at least once."""
        # classes with neither a true nor a predicted sentence have no F1; counted as 0 they would lower the mean
        scores = [quality.f1 for quality in self.classes if quality.f1 is not None]
        return sum(scores) / len(scores) if scores else 0.0


def overlap_sums(weights: Float[Tensor, "B rows L"], sentences: PaddedTokens) -> Float[Tensor, "3"]:
    """Cosine and penalty summed over the sentences that are not empty, and the number of these."""
    num_rows = weights.shape[1]
    has_words = sentences.lengths > 0
    # each sentence has its own Gram matrix of rows
    # sums over words, (B, rows, L) -> (B, rows, rows): padding has weight 0 and adds nothing
    gram = weights @ weights.transpose(1, 2)
    # an empty row stays 0, and so do its cosines
    directions = F.normalize(weights, dim=-1)
    cosines = directions @ directions.transpose(1, 2)
    identity = torch.eye(num_rows, dtype=torch.bool, device=weights.device)
    # a row's cosine with itself is always 1 and no measure of overlap
    # a single row has no pair, and an overlap of 0
    cosine = (cosines * ~identity).sum(dim=(1, 2)) / max(num_rows * (num_rows - 1), 1)
    penalty = (gram - identity.to(gram.dtype)).square().sum(dim=(1, 2))
    # one tensor instead of three numbers, so that a caller can add up batches without waiting for the device
    return torch.stack([(cosine * has_words).sum(), (penalty * has_words).sum(), has_words.sum().to(cosine.dtype)])


def classification_quality(
    predictions: ClassPredictions, truths: Sequence[str], classes: Sequence[str]
) -> ClassificationQuality:
    """Compare predictions with true labels in the same order; `classes` are the model's, in the order of its logits."""
    check_predictions(predictions, truths, classes)
    labels = [classes[index] for index in predictions.log_probs.argmax(dim=-1).tolist()]
    # one count for each (true class, predicted class)
    pairs = Counter(zip(truths, labels, strict=True))
    num_true, num_predicted = Counter(truths), Counter(labels)
    indices = {label: index for index, label in enumerate(classes)}
    # classes that the model does not have are left out, see above
    losses = [
        -float(row[indices[truth]])
        for row, truth in zip(predictions.log_probs, truths, strict=True)
        if truth in indices
    ]

    def row(truth: str) -> ConfusionRow:
        return ConfusionRow(truth, tuple(pairs[truth, label] for label in classes))

    return ClassificationQuality(
        accuracy=sum(pairs[label, label] for label in classes) / len(truths),
        # exact sum: the order of the sentences must not change the figure
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
        # sorted, because a set has no order
        unseen=tuple(row(label) for label in sorted(set(truths) - set(classes))),
        overlap=predictions.overlap,
    )


def check_predictions(predictions: ClassPredictions, truths: Sequence[str], classes: Sequence[str]) -> None:
    """Refuse numbers of sentences or classes that differ, and NaN."""
    count, columns = predictions.log_probs.shape
    if not truths:
        raise ValueError("there is nothing to evaluate: no sentences. Give at least one.")
    if count != len(truths):
        raise ValueError(f"there are {count} predictions but {len(truths)} true labels. Give one for each.")
    if columns != len(classes) or len(set(classes)) != len(classes):
        raise ValueError(
            f"the model has {columns} classes but {len(set(classes))} are named: {', '.join(classes)}. "
            f"Name each class once, in the order of the logits."
        )
    # argmax treats NaN as the maximum, so the accuracy would be a valid number
    nan_rows = predictions.log_probs.isnan().any(dim=-1).nonzero()
    if len(nan_rows):
        raise ValueError(
            f"the model gives NaN for sentence {int(nan_rows[0])}: its parameters are not finite, or overflow in this "
            f"precision. Load an earlier checkpoint, or evaluate in float32."
        )
