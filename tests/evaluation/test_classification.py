"""Measures of a classifier, by hand; a class that training never saw is always wrong."""

import json
import math

import pytest
import torch
from torch import nn

from regard.contracts import Classified, Labelled, Sequences
from regard.evaluation import (
    Answers,
    Circumstances,
    ClassificationReport,
    ConfusionRow,
    Overlap,
    Speed,
    classification_report,
    classify,
)
from regard.training.sentence_objective import SentenceObjective

CIRCUMSTANCES = Circumstances(
    system="bilstm", data="trec", split="test", sentences=5, search="argmax", parameters=10, steps=20, seed=1
)
CLASSES = ("a", "b", "c")
SHARES = [[0.5, 0.25, 0.25], [0.5, 0.25, 0.25], [0.25, 0.5, 0.25], [0.25, 0.5, 0.25], [0.5, 0.25, 0.25]]
TRUTHS = ["a", "b", "b", "new", "a"]


def report(shares=SHARES, truths=TRUTHS, classes=CLASSES, **more):
    answers = Answers(log_probs=torch.tensor(shares, dtype=torch.float64).log(), **more)
    return classification_report(answers, truths, classes, circumstances=CIRCUMSTANCES)


def test_counts_by_hand():
    found = report()
    assert found.accuracy == 3 / 5
    assert found.confusion == (ConfusionRow("a", (2, 0, 0)), ConfusionRow("b", (1, 1, 0)), ConfusionRow("c", (0, 0, 0)))
    assert found.unseen == (ConfusionRow("new", (0, 1, 0)),)
    first, second, third = found.classes
    assert (first.there, first.said, first.right) == (2, 3, 2)
    assert (first.precision, first.recall, first.f1) == (2 / 3, 1.0, 4 / 5)
    assert (second.precision, second.recall, second.f1) == (1 / 2, 1 / 2, 1 / 2)
    assert (third.precision, third.recall, third.f1) == (None, None, None)
    assert found.macro_f1 == pytest.approx((4 / 5 + 1 / 2) / 2)
    # of the four whose class is known: p = 1/2, 1/4, 1/2, 1/2
    assert found.log_loss == pytest.approx(math.log(2) * 5 / 4)


def test_nothing_but_unseen_classes():
    found = report(truths=["new"] * 4 + ["other"])
    assert found.accuracy == 0 and found.log_loss is None
    assert found.macro_f1 == 0 and [row.label for row in found.unseen] == ["new", "other"]
    assert found.classes[0].recall is None and found.classes[0].precision == 0


def test_a_report_survives_its_file():
    for found in (report(), report(overlap=Overlap(0.25, 1.5)), report(truths=["new"] * 5)):
        assert ClassificationReport.from_json(found.to_json()) == found
    values = json.loads(report().to_json())
    assert values["unseen"] == [{"label": "new", "counts": [0, 1, 0]}]
    with pytest.raises(ValueError, match=r"report\.confusion\[0\]\.counts\[1\] is \"x\", expected int"):
        ClassificationReport.from_json(
            json.dumps(values | {"confusion": [{"label": "a", "counts": [1, "x"]}]}, ensure_ascii=False)
        )
    with pytest.raises(ValueError, match=r"report has no field 'acuracy'\. The nearest is 'accuracy'"):
        ClassificationReport.from_json(json.dumps(values | {"acuracy": 1.0}))


def test_speed_stands_beside_it():
    speed = Speed.of(seconds=2.0, tokens=50, hardware="one core")
    answers = Answers(log_probs=torch.tensor([[0.0, -1.0]]))
    found = classification_report(answers, ["x"], ["x", "y"], circumstances=CIRCUMSTANCES, speed=speed)
    assert found.speed == speed and found.accuracy == 1


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"truths": TRUTHS[:4]}, "there are 5 answers but 4 true labels"),
        ({"truths": []}, "there is nothing to evaluate"),
        ({"classes": ("a", "b")}, "the model tells 3 classes apart but 2 are named: a, b"),
        ({"classes": ("a", "b", "b")}, "Name each class once"),
        ({"shares": [*SHARES[:3], [math.nan] * 3, SHARES[4]]}, "the model gives NaN for sentence 3"),
    ],
    ids=["too few", "none", "too few classes", "twice", "nan"],
)
def test_what_does_not_agree_is_refused(given, message):
    with pytest.raises(ValueError, match=message):
        report(**given)


class Fake(nn.Module):
    """Says the first word; its rows are given."""

    def __init__(self, rows=None):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))
        self.dropout = nn.Dropout(0.5)
        self.rows = rows

    def forward(self, sentences):
        logits = nn.functional.one_hot(sentences.ids[:, 0], 3) * self.scale
        weights = None if self.rows is None else torch.tensor(self.rows[: len(logits)])
        return Classified(logits=self.dropout(logits), weights=weights)


def test_answers_come_in_the_order_of_the_batches():
    model = Fake()
    found = classify(model, [Sequences.of([[2], [0]]), Sequences.of([[1]])])
    assert found.log_probs.argmax(dim=-1).tolist() == [2, 0, 1] and found.overlap is None
    assert found.log_probs.exp().sum(dim=-1).allclose(torch.ones(3, dtype=torch.float64))
    assert model.training and model.dropout.training, "it goes on training"
    assert not found.log_probs.is_inference()
    with pytest.raises(ValueError, match="there is nothing to classify"):
        classify(model, [])


def test_overlap_by_hand():
    # apart; the same; half the same
    rows = [[[1.0, 0.0], [0.0, 1.0]], [[0.5, 0.5], [0.5, 0.5]], [[1.0, 0.0], [0.5, 0.5]]]
    found = classify(Fake(rows), [Sequences.of([[1, 1], [1, 1], [1, 1]])]).overlap
    assert found.cosine == pytest.approx((0 + 1 + math.sqrt(0.5)) / 3)
    penalties = [0.0, 4 * 0.25, 2 * 0.25 + 0.25]
    assert found.penalty == pytest.approx(sum(penalties) / 3)


def test_sentences_without_words_overlap_nowhere():
    rows = [[[1.0, 0.0], [1.0, 0.0]], [[0.0, 0.0], [0.0, 0.0]]]
    found = classify(Fake(rows), [Sequences.of([[1, 2], []])]).overlap
    assert found == Overlap(1.0, 2.0)
    assert classify(Fake([[[1.0]]]), [Sequences.of([[1]])]).overlap is None, "one row has none to overlap with"


def test_the_objective_passes_unseen_classes_by():
    model, sentences = Fake().eval(), Sequences.of([[1], [2]])
    for labels, count in (([1, -100], 1), ([-100, -100], 0)):
        loss = SentenceObjective(model)(Labelled(sentences=sentences, labels=torch.tensor(labels), num_tokens=count))
        expected = -math.log(math.e / (math.e + 2)) * count
        assert loss.item() == pytest.approx(expected)
    smoothed = SentenceObjective(model, label_smoothing=0.3)
    batch = Labelled(sentences=Sequences.of([[1]]), labels=torch.tensor([1]), num_tokens=1)
    assert smoothed(batch).item() == pytest.approx(math.log(math.e + 2) - 0.8)
