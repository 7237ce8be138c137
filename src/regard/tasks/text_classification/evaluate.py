"""Evaluation of a classifier on labelled sentences: accuracy, confusion table, overlap of attention rows."""

import time
from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch import Tensor

from regard.contracts import (
    Cell,
    Classifier,
    Column,
    Metric,
    PaddedTokens,
    Predictor,
    Report,
    ReportTable,
    RunInfo,
    Speed,
    device_of,
    evaluating,
    map_tensors,
    to_double,
)
from regard.data.batching import ClassificationExamples, TokenBudget, batches_by_length, make_classification_examples
from regard.data.text import Sentence, Tokenizer
from regard.metrics import ClassificationQuality, ClassPredictions, Overlap, classification_quality, overlap_sums
from regard.tasks.base import hardware, run_info

TASK = "text_classification"
EVALUATION_TOKENS = 4096
SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}


def evaluate_sentences(
    classifier: Predictor, sentences: Sequence[Sentence], tokenizer: Tokenizer, *, split: str, steps: int = 0
) -> Report:
    """Classify all sentences and compare with their labels; `steps` is the number of training steps."""
    run = classifier.run
    examples = make_classification_examples(sentences, tokenizer, run.classes, run.batch.max_length)
    began = time.perf_counter()
    answers = predict_all(classifier.model, examples)
    seconds = time.perf_counter() - began
    return make_report(
        run_info(classifier, task=TASK, split=split, num_examples=len(sentences), steps=steps),
        classification_quality(answers, examples.truths, run.classes),
        speed=Speed(
            seconds=seconds,
            count=int(examples.ids.lengths.sum()),
            unit="tokens",
            hardware=hardware(classifier.device),
        ),
        warnings=(examples.report,) if examples.report else (),
    )


def predict_all(model: Any, examples: ClassificationExamples) -> ClassPredictions:
    """The predictions of a model for every example, in their order."""
    batches = batches_by_length(examples.lengths, TokenBudget(EVALUATION_TOKENS))
    answers = classify(model, (examples.batch(rows).sentences for rows in batches))
    # batches are sorted by length; restore the order of the examples
    positions = [0] * len(examples)
    for position, row in enumerate(row for rows in batches for row in rows):
        positions[row] = position
    return replace(answers, log_probs=answers.log_probs[positions])


def classify(model: Classifier, batches: Iterable[PaddedTokens]) -> ClassPredictions:
    """The predictions for every sentence, in the order of the batches, which are moved to the model's device."""
    device = device_of(model)
    log_probs: list[Tensor] = []
    overlaps: list[Tensor] = []
    with evaluating(model):
        for cpu_batch in batches:
            batch = map_tensors(lambda tensor: tensor.to(device), cpu_batch)
            output = model.forward(batch)
            # float64 keeps the digits of probabilities near 1
            log_probs.append(torch.log_softmax(to_double(output.logits), dim=-1))
            # (texts, rows, words); the overlap compares two rows, so one row has none
            if output.weights is not None and output.weights.shape[1] > 1:
                overlaps.append(overlap_sums(to_double(output.weights), batch))
        if not log_probs:
            raise ValueError("there are no sentences to classify. Give at least one batch.")
        # one transfer at the end: a transfer per batch would synchronise the device every time
        rows = torch.cat(log_probs).cpu()
        cosine, penalty, count = torch.stack(overlaps).sum(dim=0).tolist() if overlaps else (0.0, 0.0, 0.0)
    # cloned outside inference mode, to be an ordinary tensor
    return ClassPredictions(log_probs=rows.clone(), overlap=Overlap(cosine / count, penalty / count) if count else None)


def make_report(
    info: RunInfo, quality: ClassificationQuality, *, speed: Speed | None = None, warnings: tuple[str, ...] = ()
) -> Report:
    """Accuracy, macro F1, log-loss and overlap, with a table of classes and a confusion table."""
    metrics = [
        Metric(name="accuracy", value=quality.accuracy, title="accuracy", format=".2%"),
        Metric(
            name="macro_f1", value=quality.macro_f1, title="macro F1", signature="mean over the classes", format=".4f"
        ),
    ]
    # None if no text has a class of the training data
    if quality.log_loss is not None:
        signature = "nats per sentence, over the classes of the training data"
        metrics.append(
            Metric(name="log_loss", value=quality.log_loss, title="log-loss", signature=signature, format=".4f")
        )
    if quality.overlap is not None:
        metrics += overlap_metrics(quality.overlap)
    return Report(
        info=info,
        metrics=tuple(metrics),
        tables=(classes_table(quality), confusion_table(quality)),
        speed=speed,
        warnings=warnings,
    )


def overlap_metrics(overlap: Overlap) -> list[Metric]:
    """The similarity of a sentence's attention rows."""
    signature = "mean cosine between two attention rows: 0 if they share no word"
    return [
        Metric(name="overlap", value=overlap.cosine, title="overlap", signature=signature, format=".3f"),
        Metric(
            name="overlap_penalty",
            value=overlap.penalty,
            title="||AA^T - I||^2",
            signature="the penalty term of the training loss",
            format=".3f",
        ),
    ]


def classes_table(quality: ClassificationQuality) -> ReportTable:
    """Counts, precision, recall and F1 of every class."""
    columns = [Column(name="label", title="class")]
    columns += [Column(name=name, title=name, format=",") for name in ("true", "predicted", "correct")]
    columns += [Column(name=name, title=title, format=".3f") for name, title in SCORES.items()]
    rows = (
        (one.label, one.num_true, one.num_predicted, one.num_correct, one.precision, one.recall, one.f1)
        for one in quality.classes
    )
    return ReportTable(name="classes", title="classes", columns=tuple(columns), rows=tuple(rows))


def confusion_table(quality: ClassificationQuality) -> ReportTable:
    """Rows are true classes, columns predicted classes; classes that are not in the training data come last."""
    labels = [one.label for one in quality.classes]
    columns = (
        Column(name="true", title="true \\ predicted"),
        *(Column(name=label, title=label, format=",") for label in labels),
        Column(name="seen", title=""),
    )
    rows: list[tuple[Cell, ...]] = [(row.label, *row.counts, "") for row in quality.confusion]
    rows += [(row.label, *row.counts, "never seen in training") for row in quality.unseen]
    return ReportTable(name="confusion", title="confusion table", columns=columns, rows=tuple(rows))
