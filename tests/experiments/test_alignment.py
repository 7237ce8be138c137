"""Attention as an aligner: the verdict is for attention that was trained, and not for attention that was not."""

import re

import pytest

from regard.data.corpora import InventedLanguage
from regard.experiments import alignment
from regard.experiments.alignment import (
    ATTENTION,
    BEST,
    DIAGONAL,
    FAST_ALIGN,
    IBM,
    UNTRAINED,
    AlignedText,
    best_possible,
    judge,
    make_model,
    weights_on_test,
)
from regard.experiments.lib.small_transformer import seeded
from regard.metrics import alignment_quality

SMALL = InventedLanguage(num_nouns=8, num_verbs=4, num_adjectives=3, max_clauses=1)
RATES = {
    ATTENTION: [0.20, 0.24, 0.22],
    UNTRAINED: [0.90, 0.91, 0.93],
    DIAGONAL: [0.80, 0.81, 0.79],
    IBM: [0.10, 0.12, 0.11],
    FAST_ALIGN: [0.30, 0.35, 0.31],
    BEST: [0.1, 0.1, 0.1],
}


def test_a_trained_model_aligns_and_an_untrained_one_does_not():
    small = {"num_pairs": 300, "num_test": 40, "hidden_size": 32, "language": SMALL, "repeats": 2}
    trained, untrained = (alignment.run(steps=steps, **small) for steps in (350, 1))
    assert trained.holds, trained.verdict
    assert "has learned to align" in trained.verdict.en
    assert not untrained.holds
    assert [row["aligner"] for row in trained.rows] == [*RATES]
    # what does not depend on the training is equal
    assert trained.rows[2:] == untrained.rows[2:]


@pytest.mark.parametrize(
    ("changes", "expected", "words"),
    [
        ({}, True, "has learned to align"),
        ({ATTENTION: [0.95, 0.94, 0.96]}, False, "is not clearly better"),
        # far below both references, and still wrong more often than right
        ({ATTENTION: [0.60, 0.61, 0.62]}, False, "is wrong too often"),
        # lower on average only
        ({ATTENTION: [0.20, 0.85, 0.90]}, None, "is not clearly better"),
    ],
)
def test_verdicts(changes, expected, words):
    holds, verdict = judge(RATES | changes, [0.9, 0.95, 0.97])
    assert holds is expected
    assert words in verdict.en


def test_the_verdict_compares_with_the_aligners_of_the_same_text():
    _, verdict = judge(RATES, [0.9, 0.95, 0.97])
    assert "worse than IBM Model 1" in verdict.en and "better than fast_align model" in verdict.en
    assert "不如 IBM Model 1" in verdict.zh and "优于 fast_align 模型" in verdict.zh
    _, verdict = judge(RATES | {IBM: [0.19, 0.25, 0.22]}, [0.9, 0.95, 0.97])
    assert "not clearly different from IBM Model 1" in verdict.en
    assert re.search("，它与 IBM Model 1（.*）没有明显差别，", verdict.zh)


def test_the_bound_is_reached_where_every_word_has_one_counterpart():
    text = AlignedText.draw(0, SMALL, 50, 40)
    links = best_possible(text)
    for sentence, pair, gold in zip(links, text.test, text.gold, strict=True):
        assert [target for _, target in sentence] == list(range(len(pair.target.split())))
        # wrong only where the target word has no counterpart
        linked = {target for _, target in gold.sure}
        assert all(((source, target) in gold.sure) == (target in linked) for source, target in sentence)
    assert 0 < alignment_quality(links, text.gold).error_rate < 0.3


def test_weights_have_no_end_marks():
    text = AlignedText.draw(0, SMALL, 50, 5)
    with seeded(0):
        weights = weights_on_test(make_model(text, 8), text)
    assert [tuple(one.shape) for one in weights] == [
        (len(pair.target.split()), len(pair.source.split())) for pair in text.test
    ]
