"""Decisions: yes, no, and what the spread leaves open."""

import pytest

from regard.experiments.lib.decision import all_of, exceeds, is_above, mean_gap, negated


def test_a_gap_is_clear_reversed_or_open():
    assert is_above([1.0, 1.1, 1.2], [0.5, 0.6, 0.6]) is True
    assert is_above([0.5, 0.6, 0.6], [1.0, 1.1, 1.2]) is False
    assert is_above([1.0, 0.4, 1.2], [0.9, 0.9, 0.9]) is None
    assert is_above([1.0, 1.0], [1.0, 1.0]) is None


@pytest.mark.parametrize(
    ("higher", "lower", "expected"),
    [
        ([1.0, 0.9, 1.0], [0.5, 0.4, 0.6], True),
        ([0.5, 0.4, 0.6], [1.0, 0.9, 1.0], False),
        # significant, but too small to matter
        ([1.0, 1.01, 1.02], [0.98, 0.99, 1.0], False),
        # large, but only because of one seed
        ([1.0, 0.5, 0.5], [0.5, 0.5, 0.5], None),
    ],
)
def test_above_by_a_margin_and_clearly(higher, lower, expected):
    assert exceeds(higher, lower, margin=0.05) is expected


def test_one_failure_refutes_and_one_open_part_leaves_open():
    assert all_of(True, True) is True
    assert all_of(True, None) is None
    assert all_of(None, False, True) is False
    assert [negated(fact) for fact in (True, False, None)] == [False, True, None]
    assert mean_gap([1.0, 3.0], [0.5, 0.5]) == 1.5
