"""Measures of a classifier, by hand; a class outside the training data counts as wrong."""

import math

import pytest
import torch
from torch import nn

from regard.contracts import ClassificationBatch, ClassifierOutput, PaddedTokens
from regard.contracts.report import RunInfo, Speed
from regard.metrics import ClassPredictions, ConfusionRow, Overlap, classification_quality
from regard.tasks import read_report, write_report
from regard.tasks.text_classification.evaluate import classify, make_report
from regard.training.objectives import ClassificationObjective

CLASSES = ("a", "b", "c")
SHARES = [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]]
TRUTHS = ["a", "b", "b", "new", "a"]


def quality(shares=SHARES, truths=TRUTHS, classes=CLASSES, **more):
    answers = ClassPredictions(log_probs=torch.tensor(shares, dtype=torch.float64).log(), **more)
    return classification_quality(answers, truths, classes)


def test_counts_by_hand():
    actual = quality()
    assert actual.accuracy == 3 / 5
    assert actual.confusion == (
        ConfusionRow("a", (2, 0, 0)),
        ConfusionRow("b", (1, 1, 0)),
        ConfusionRow("c", (0, 0, 0)),
    )
    assert actual.unseen == (ConfusionRow("new", (0, 1, 0)),)
    first, second, third = actual.classes
    assert (first.num_true, first.num_predicted, first.num_correct) == (2, 3, 2)
    assert (first.precision, first.recall, first.f1) == (2 / 3, 1.0, 4 / 5)
    assert (second.precision, second.recall, second.f1) == (1 / 2, 1 / 2, 1 / 2)
    assert (third.precision, third.recall, third.f1) == (None, None, None)
    assert actual.macro_f1 == pytest.approx((4 / 5 + 1 / 2) / 2)
    # of the four whose class is known: p = 1/2, 1/4, 1/2, 1/2
    assert actual.log_loss == pytest.approx(math.log(2) * 5 / 4)


def test_all_truths_are_unseen_classes():
    actual = quality(truths=["new"] * 4 + ["other"])
    assert actual.accuracy == 0 and actual.log_loss is None
    assert actual.macro_f1 == 0 and [row.label for row in actual.unseen] == ["new", "other"]
    assert actual.classes[0].recall is None and actual.classes[0].precision == 0


INFO = RunInfo(
    task="text_classification", system="bilstm", data="trec", split="test", examples=5, parameters=10, steps=20, seed=1
)


def test_a_report_has_every_figure_and_survives_its_file():
    speed = Speed(seconds=2.0, count=50, unit="tokens", hardware="one core")
    for values in (quality(), quality(overlap=Overlap(0.25, 1.5)), quality(truths=["new"] * 5)):
        report = make_report(INFO, values, speed=speed, warnings=("cut",))
        assert read_report(write_report(report)) == report
    report = make_report(INFO, quality(overlap=Overlap(0.25, 1.5)))
    names = [metric.name for metric in report.metrics]
    assert names == ["accuracy", "macro_f1", "log_loss", "overlap", "overlap_penalty"]
    assert report.metric("accuracy").value == 3 / 5 and report.metric("overlap").value == 0.25
    assert [column.title for column in report.table("confusion").columns[1:4]] == list(CLASSES)
    assert report.table("confusion").rows[0] == ("a", 2, 0, 0, "")
    assert report.table("confusion").rows[-1] == ("new", 0, 1, 0, "never seen in training")
    assert report.table("classes").rows[2] == ("c", 0, 0, 0, None, None, None)
    assert make_report(INFO, quality(truths=["new"] * 5)).metric("log_loss") is None


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"truths": TRUTHS[:4]}, "there are 5 predictions but 4 true labels"),
        ({"truths": []}, "there is nothing to evaluate"),
        ({"classes": ("a", "b")}, "the model has 3 classes but 2 are named: a, b"),
        ({"classes": ("a", "b", "b")}, "Name each class once"),
        ({"shares": [*SHARES[:3], [math.nan] * 3, SHARES[4]]}, "the model gives NaN for sentence 3"),
    ],
    ids=["too few", "none", "too few classes", "twice", "nan"],
)
def test_inconsistent_arguments_are_refused(given, message):
    with pytest.raises(ValueError, match=message):
        quality(**given)


class Fake(nn.Module):
    """A classifier whose class is the first word, with given rows."""

    def __init__(self, rows=None):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.dropout = nn.Dropout(0.5)
        self.rows = rows

    def forward(self, sentences):
        logits = nn.functional.one_hot(sentences.ids[:, 0], 3) * self.scale
        weights = None if self.rows is None else torch.tensor(self.rows[: len(logits)])
        return ClassifierOutput(logits=self.dropout(logits), weights=weights)


def test_predictions_are_in_the_order_of_the_batches():
    model = Fake()
    actual = classify(model, [PaddedTokens.from_lists([[2], [0]]), PaddedTokens.from_lists([[1]])])
    assert actual.log_probs.argmax(dim=-1).tolist() == [2, 0, 1] and actual.overlap is None
    assert actual.log_probs.exp().sum(dim=-1).allclose(torch.ones(3, dtype=torch.float64))
    assert model.training and model.dropout.training, "the training mode is restored"
    assert not actual.log_probs.is_inference()
    with pytest.raises(ValueError, match="there are no sentences to classify"):
        classify(model, [])


def test_overlap_by_hand():
    # disjoint; equal; half equal
    rows = [[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5]]]
    actual = classify(Fake(rows), [PaddedTokens.from_lists([[1, 1], [1, 1], [1, 1]])]).overlap
    assert actual.cosine == pytest.approx((0 + 1 + math.sqrt(0.5)) / 3)
    penalties = [0.0, 4 * 0.25, 2 * 0.25 + 0.25]
    assert actual.penalty == pytest.approx(sum(penalties) / 3)


def test_sentences_without_words_have_no_overlap():
    rows = [[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]
    actual = classify(Fake(rows), [PaddedTokens.from_lists([[1, 2], []])]).overlap
    assert actual == Overlap(1.0, 2.0)
    assert classify(Fake([[[1.0]]]), [PaddedTokens.from_lists([[1]])]).overlap is None, "a single row has no overlap"


def test_the_objective_ignores_unseen_classes():
    model, sentences = Fake().eval(), PaddedTokens.from_lists([[1], [2]])
    for labels, count in (([1, -100], 1), ([-100, -100], 0)):
        loss = ClassificationObjective(model)(
            ClassificationBatch(sentences=sentences, labels=torch.tensor(labels), num_tokens=count)
        )
        expected = -math.log(math.e / (math.e + 2)) * count
        assert loss.item() == pytest.approx(expected)
    smoothed = ClassificationObjective(model, label_smoothing=0.3)
    batch = ClassificationBatch(sentences=PaddedTokens.from_lists([[1]]), labels=torch.tensor([1]), num_tokens=1)
    assert smoothed(batch).item() == pytest.approx(math.log(math.e + 2) - 0.8)
