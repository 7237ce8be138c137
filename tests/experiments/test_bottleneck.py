"""The fixed vector: systems of equal size, the variant without c at every step, and a verdict for each outcome."""

import pytest
import torch

from regard.experiments.bottleneck import ATTENTION, COLOURS, EVERY, START, build, judge
from regard.experiments.lib.sentence_pairs import FIRST, copied, logits_of, mean_loss, summed, word_accuracy
from regard.experiments.lib.sizes import equal_sizes
from regard.experiments.lib.small_transformer import seeded
from regard.experiments.lib.training import fit
from regard.tasks import count_parameters

LENGTHS = (2, 10, 20)


def accuracies_of(**changes):
    values = {
        START: [[1.0, 0.6, 0.2], [1.0, 0.65, 0.2], [1.0, 0.55, 0.3]],
        EVERY: [[1.0, 0.8, 0.4], [1.0, 0.82, 0.4], [1.0, 0.78, 0.4]],
        "Seq2Seq": [[1.0, 0.7, 0.3], [1.0, 0.7, 0.35], [1.0, 0.75, 0.3]],
        ATTENTION: [[1.0, 1.0, 0.6], [1.0, 0.99, 0.7], [1.0, 1.0, 0.5]],
    }
    return values | changes


def test_the_claim_holds_for_such_numbers():
    holds, verdict = judge(accuracies_of(), LENGTHS, longest=10)
    assert holds is True
    assert "attention has 0.60, the best other system, c at every step, 0.40" in verdict.en


@pytest.mark.parametrize(
    ("changes", "expected", "sentence"),
    [
        ({"Seq2Seq": [[1.0, 1.0, 0.9]] * 3}, False, "does not fall in every system"),
        ({ATTENTION: [[1.0, 0.5, 0.1]] * 3}, False, "falls too"),
        ({START: [[1.0, 0.85, 0.4]] * 3}, False, "does not help"),
        ({START: [[1.0, 0.9, 0.4], [1.0, 0.3, 0.4], [1.0, 0.85, 0.4]]}, None, "is better, but within the spread"),
        ({"Seq2Seq": [[1.0, 0.1, 0.1], [1.0, 1.0, 0.1], [1.0, 1.0, 0.1]]}, None, "falls, but within the spread"),
    ],
)
def test_each_part_may_fail_or_stay_open(changes, expected, sentence):
    holds, verdict = judge(accuracies_of(**changes), LENGTHS, longest=10)
    assert holds is expected
    assert sentence in verdict.en


def test_all_systems_have_one_size():
    sizes = equal_sizes(lambda name, size: build(8, name, size), list(COLOURS), reference=EVERY, size=32)
    counts = [count_parameters(build(8, name, size)) for name, size in sizes.items()]
    assert max(counts) < 1.05 * min(counts)


def test_without_c_at_every_step_the_source_acts_through_the_first_state_only():
    with seeded(0):
        pairs = copied(8, 5, count=3)
        for name, depends in ((START, False), (EVERY, True)):
            model = build(8, name, 8)
            encoded = model.encode(pairs.source)
            other = model.encode(copied(8, 5, count=3).source)
            state, tokens = model.start(encoded), pairs.inputs.ids[:, 1]
            changed = model.step(tokens, state, other).logits
            assert torch.equal(model.step(tokens, state, encoded).logits, changed) is not depends


def test_a_translation_has_one_word_for_each():
    with seeded(0):
        pairs, sums = copied(8, 5, count=3), summed(4, 6, count=50)
    assert torch.equal(pairs.source.ids, pairs.labels)
    assert torch.equal(pairs.inputs.ids[:, 1:], pairs.labels[:, :-1])
    steps, words = sums.source.ids[:, :-1] - FIRST, sums.labels[:, :-1] - FIRST
    assert torch.equal((words[:, 1:] - words[:, :-1]) % 4, steps[:, 1:])
    assert torch.equal(words[:, 0], steps[:, 0])


def test_own_outputs_are_the_inputs_of_the_next_step():
    with seeded(0):
        model = build(4, EVERY, 24)
        fit(model, lambda step: mean_loss(model((p := copied(4, 3, count=32)).source, p.inputs), p.labels), steps=120)
        pairs = copied(4, 3, count=64)
        assert word_accuracy(model, pairs) > 0.9
        forced = logits_of(model, pairs, own_output_ratio=0.0)
        torch.testing.assert_close(forced, model(pairs.source, pairs.inputs))
