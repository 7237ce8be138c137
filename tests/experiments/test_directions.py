"""Both directions: sentences follow their rule, encoders have the context that they should, the verdict may differ."""

import pytest
import torch

from regard.experiments.directions import (
    BACKWARD,
    BOTH,
    CAUSAL,
    ENCODERS,
    FIRST_SOUNDS,
    FORWARD,
    FULL_ATTENTION,
    LEFT,
    RIGHT,
    SUBJECTS,
    WORDS,
    Labeller,
    draw,
    judge,
    train_and_evaluate,
)
from regard.experiments.lib.sizes import equal_sizes
from regard.experiments.lib.small_transformer import seeded
from regard.tasks import count_parameters

GUESSES = {LEFT: 0.5, RIGHT: 0.5}
ALWAYS, GUESS = [1.0, 0.99, 1.0], [0.5, 0.51, 0.49]


def accuracies_of(**changes):
    right = {FORWARD: GUESS, BACKWARD: ALWAYS, BOTH: ALWAYS, CAUSAL: GUESS, FULL_ATTENTION: ALWAYS}
    left = {FORWARD: ALWAYS, BACKWARD: GUESS, BOTH: ALWAYS, CAUSAL: ALWAYS, FULL_ATTENTION: ALWAYS}
    return {LEFT: left | changes.get("left", {}), RIGHT: right | changes.get("right", {})}


def test_such_numbers_confirm_the_claim():
    assert judge(accuracies_of(), GUESSES)[0] is True


@pytest.mark.parametrize(
    ("changes", "expected", "sentence"),
    [
        ({"right": {FORWARD: ALWAYS}}, False, "Encoders from left to right are better than guessing"),
        ({"left": {BACKWARD: ALWAYS}}, False, "is not hidden from"),
        ({"right": {BOTH: GUESS}}, False, "both sides are not better"),
        ({"right": {BOTH: [1.0, 0.5, 0.5]}}, None, "are better, but within the spread"),
    ],
)
def test_other_numbers_do_not(changes, expected, sentence):
    holds, verdict = judge(accuracies_of(**changes), GUESSES)
    assert holds is expected
    assert sentence in verdict.en


def test_the_first_word_after_the_article_decides_it_and_the_subject_the_verb():
    with seeded(0):
        sentences = draw(200, 2)
    sounds = FIRST_SOUNDS["nouns"] | FIRST_SOUNDS["adjectives"]
    for ids, verb, article in zip(
        sentences.ids.tolist(), sentences.verbs.tolist(), sentences.articles.tolist(), strict=True
    ):
        words = [WORDS[number] for number in ids]
        assert words[2:4] == ["了", "一个"]
        assert verb == SUBJECTS[words[0]]
        assert article == sounds[words[4]]
        assert sum(word in FIRST_SOUNDS["nouns"] for word in words) == 1


def test_an_encoder_depends_on_its_own_side_only():
    ids = draw(4, 1).ids
    subject, following = ids.clone(), ids.clone()
    subject[:, 0] = (subject[:, 0] + 1) % len(WORDS)
    following[:, 4] = (following[:, 4] + 1) % len(WORDS)
    for name in ENCODERS:
        model = Labeller(name, 8).eval()
        verbs, articles = model(ids)
        assert torch.equal(model(subject)[0], verbs) is (name == BACKWARD)
        assert torch.equal(model(following)[1], articles) is (name in {FORWARD, CAUSAL})


def test_a_short_training_tells_them_apart():
    verbs, articles = zip(
        *(train_and_evaluate(0, name, 12, steps=60, max_adjectives=1) for name in (FORWARD, BOTH)), strict=True
    )
    assert min(verbs) > 0.8
    assert articles[0] < 0.6 < 0.8 < articles[1]


def test_encoders_have_one_size():
    sizes = equal_sizes(Labeller, list(ENCODERS), reference=BOTH, size=24)
    counts = [count_parameters(Labeller(name, size)) for name, size in sizes.items()]
    assert max(counts) < 1.05 * min(counts)
