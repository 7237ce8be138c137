"""How good a classifier of sentences is, and whether its rows of attention look at different words.

    precision = right / said,   recall = right / there,   F1 = 2 right / (said + there)
    log-loss  = - mean log p(true class)
    overlap   = mean cosine between two rows of A, and ||A A^T - I||_F^2 (Lin et al. 2017, section 2.2)

A class that training never saw can only be got wrong: it counts in accuracy and has a row of its own in the confusion
table, but no column. Its probability is not 0 but unknown, so the log-loss is over the other sentences.

Shapes: N sentences, B batch, L words.
"""

import math
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.contracts import SentenceModel, Sequences, map_tensors
from regard.decoding import device_of, evaluating
from regard.evaluation.reading import read_report, write_report
from regard.evaluation.report import Circumstances, Speed


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
    """What a model says of many sentences: the log-probability of every class, and how its rows overlap."""

    log_probs: Float[Tensor, "N classes"]
    overlap: Overlap | None = None


@dataclass(frozen=True)
class ClassQuality:
    """One class: how often it is there, said, and both; None where that leaves nothing to divide by."""

    label: str
    there: int
    said: int
    right: int
    precision: float | None
    recall: float | None
    f1: float | None

    @classmethod
    def of(cls, label: str, *, there: int, said: int, right: int) -> "ClassQuality":
        """From the counts."""
        shares = ((right, said), (right, there), (2 * right, said + there))
        return cls(label, there, said, right, *(part / whole if whole else None for part, whole in shares))


@dataclass(frozen=True)
class ConfusionRow:
    """Sentences of one true class: how often each class of the table's columns was said."""

    label: str
    counts: tuple[int, ...]


@dataclass(frozen=True, kw_only=True)
class ClassificationReport:
    """Everything evaluated for a classifier; `unseen` are the confusion rows of classes that training never saw."""

    circumstances: Circumstances
    accuracy: float
    log_loss: float | None
    classes: tuple[ClassQuality, ...]
    confusion: tuple[ConfusionRow, ...]
    unseen: tuple[ConfusionRow, ...] = ()
    overlap: Overlap | None = None
    speed: Speed | None = None

    @property
    def macro_f1(self) -> float:
        """The mean F1 of the classes that are there or were said."""
        found = [quality.f1 for quality in self.classes if quality.f1 is not None]
        return sum(found) / len(found) if found else 0.0

    def to_json(self) -> str:
        """Readable JSON, keys in the order of the fields."""
        return write_report(self)

    @classmethod
    def from_json(cls, text: str) -> "ClassificationReport":
        """The report that was written; a key too many, too few or of another kind is named."""
        return read_report(cls, text)


def classify(model: SentenceModel, batches: Iterable[Sequences]) -> Answers:
    """What the model says of every sentence, in the order of the batches, which are moved to its device."""
    device = device_of(model)
    found: list[Tensor] = []
    overlaps: list[Tensor] = []
    with evaluating(model):
        for given in batches:
            batch = map_tensors(lambda tensor: tensor.to(device), given)
            said = model.forward(batch)
            found.append(torch.log_softmax(said.logits.double(), dim=-1))
            if said.weights is not None and said.weights.shape[1] > 1:
                overlaps.append(overlap_sums(said.weights.double(), batch))
        if not found:
            raise ValueError("there is nothing to classify. Give at least one batch of sentences.")
        # one transfer at the end: the device need not wait for the host after every batch
        log_probs = torch.cat(found).cpu()
        cosine, penalty, count = torch.stack(overlaps).sum(dim=0).tolist() if overlaps else (0.0, 0.0, 0.0)
    return Answers(log_probs=log_probs.clone(), overlap=Overlap(cosine / count, penalty / count) if count else None)


def overlap_sums(weights: Float[Tensor, "B rows L"], sentences: Sequences) -> Float[Tensor, "3"]:
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


def classification_report(
    answers: Answers,
    truths: Sequence[str],
    classes: Sequence[str],
    *,
    circumstances: Circumstances,
    speed: Speed | None = None,
) -> ClassificationReport:
    """Answers beside the true labels, in the same order; `classes` are the model's own, in the order of its logits."""
    check_answers(answers, truths, classes)
    said = [classes[place] for place in answers.log_probs.argmax(dim=-1).tolist()]
    pairs = Counter(zip(truths, said, strict=True))
    there, told = Counter(truths), Counter(said)
    places = {label: place for place, label in enumerate(classes)}
    losses = [
        -float(row[places[truth]]) for row, truth in zip(answers.log_probs, truths, strict=True) if truth in places
    ]

    def row(truth: str) -> ConfusionRow:
        return ConfusionRow(truth, tuple(pairs[truth, label] for label in classes))

    return ClassificationReport(
        circumstances=circumstances,
        accuracy=sum(pairs[label, label] for label in classes) / len(truths),
        log_loss=math.fsum(losses) / len(losses) if losses else None,
        classes=tuple(
            ClassQuality.of(label, there=there[label], said=told[label], right=pairs[label, label]) for label in classes
        ),
        confusion=tuple(row(label) for label in classes),
        unseen=tuple(row(label) for label in sorted(set(truths) - set(classes))),
        overlap=answers.overlap,
        speed=speed,
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
