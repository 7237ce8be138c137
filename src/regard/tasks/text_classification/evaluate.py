"""The quality of a classifier on labelled sentences, as a report: accuracy, confusions, overlap of attention rows."""

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
)
from regard.data.batching import LabelledExamples, TokenBudget, batches_by_length, make_labelled
from regard.data.text import Sentence, Tokenizer
from regard.metrics import ClassificationQuality, ClassPredictions, Overlap, classification_quality, overlap_sums
from regard.tasks.base import hardware, run_info

TASK = "text_classification"
EVALUATION_TOKENS = 4096
SCORES = {"precision": "precision", "recall": "recall", "f1": "F1"}


def evaluate_sentences(
    classifier: Predictor, sentences: Sequence[Sentence], tokenizer: Tokenizer, *, split: str, steps: int = 0
) -> Report:
    """Classify all sentences and compare; `steps` are those the model was trained for."""
    run = classifier.run
    examples = make_labelled(sentences, tokenizer, run.classes, run.batch.max_length)
    began = time.perf_counter()
    answers = answers_of(classifier.model, examples)
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


def answers_of(model: Any, examples: LabelledExamples) -> ClassPredictions:
    """The predictions of a model for every example, in their order."""
    batches = batches_by_length(examples.lengths, TokenBudget(EVALUATION_TOKENS))
    answers = classify(model, (examples.batch(rows).sentences for rows in batches))
    places = [0] * len(examples)
    for place, row in enumerate(row for rows in batches for row in rows):
        places[row] = place
    return replace(answers, log_probs=answers.log_probs[places])


def classify(model: Classifier, batches: Iterable[PaddedTokens]) -> ClassPredictions:
    """The predictions for every sentence, in the order of the batches, which are moved to the model's device."""
    device = device_of(model)
    log_probs: list[Tensor] = []
    overlaps: list[Tensor] = []
    with evaluating(model):
        for given in batches:
            batch = map_tensors(lambda tensor: tensor.to(device), given)
            output = model.forward(batch)
            log_probs.append(torch.log_softmax(output.logits.double(), dim=-1))
            if output.weights is not None and output.weights.shape[1] > 1:
                overlaps.append(overlap_sums(output.weights.double(), batch))
        if not log_probs:
            raise ValueError("there is nothing to classify. Give at least one batch of sentences.")
        # one transfer at the end: the device need not wait for the host after every batch
        rows = torch.cat(log_probs).cpu()
        cosine, penalty, count = torch.stack(overlaps).sum(dim=0).tolist() if overlaps else (0.0, 0.0, 0.0)
    return ClassPredictions(log_probs=rows.clone(), overlap=Overlap(cosine / count, penalty / count) if count else None)


def make_report(
    info: RunInfo, quality: ClassificationQuality, *, speed: Speed | None = None, warnings: tuple[str, ...] = ()
) -> Report:
    """Accuracy first, then F1, log-loss and overlap; every class by itself, and the confusion table."""
    metrics = [
        Metric(name="accuracy", value=quality.accuracy, title="accuracy", format=".2%"),
        Metric(
            name="macro_f1", value=quality.macro_f1, title="macro F1", signature="mean over the classes", format=".4f"
        ),
    ]
    if quality.log_loss is not None:
        about = "nats a sentence, of classes that training saw"
        metrics.append(Metric(name="log_loss", value=quality.log_loss, title="log-loss", signature=about, format=".4f"))
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
    """How alike the rows of attention are."""
    about = "mean cosine between two rows of attention: 0 where they share no word"
    return [
        Metric(name="overlap", value=overlap.cosine, title="overlap", signature=about, format=".3f"),
        Metric(
            name="overlap_penalty",
            value=overlap.penalty,
            title="||AA^T - I||^2",
            signature="what the penalty reduces",
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
    return ReportTable(name="classes", title="every class", columns=tuple(columns), rows=tuple(rows))


def confusion_table(quality: ClassificationQuality) -> ReportTable:
    """A row for what is true, a column for what was predicted; classes that training never saw come last."""
    labels = [one.label for one in quality.classes]
    columns = (
        Column(name="true", title="true \\ predicted"),
        *(Column(name=label, title=label, format=",") for label in labels),
        Column(name="seen", title=""),
    )
    rows: list[tuple[Cell, ...]] = [(row.label, *row.counts, "") for row in quality.confusion]
    rows += [(row.label, *row.counts, "never seen in training") for row in quality.unseen]
    return ReportTable(name="confusion", title="confusions", columns=columns, rows=tuple(rows))
