"""Times side by side: the sign test excludes chance, and an outlier moves nothing."""

from math import comb

import pytest

from regard.experiments.lib.timing import interleaved, is_slower, median_of, two_sided


def test_the_sign_test_needs_more_turns_than_chance_gives():
    assert two_sided(9, 10) == pytest.approx(2 * (comb(10, 9) + 1) / 1024)
    first = [2.0] * 9 + [1.0]
    assert is_slower(first, [1.5] * 10) is True
    assert is_slower([1.5] * 10, first) is False
    # 8 of 10 is not clear, and neither are equal times
    assert is_slower([2.0] * 8 + [1.0] * 2, [1.5] * 10) is None
    assert is_slower([1.0] * 10, [1.0] * 10) is None
    # one outlier decides nothing
    assert is_slower([1e6] + [1.0] * 9, [1.5] * 10) is False


def test_the_median_ignores_an_outlier():
    assert median_of([1.0, 2.0, 3.0, 4.0, 5.0]).mean == 3.0
    assert median_of([1.0, 2.0, 3.0, 4.0, 1e9]).mean == 3.0


def test_every_candidate_runs_in_every_turn():
    calls = []
    seconds = interleaved({name: lambda name=name: calls.append(name) for name in "abc"}, turns=4, calls=2)
    assert {name: len(values) for name, values in seconds.items()} == dict.fromkeys("abc", 4)
    assert sorted(calls[:6]) == sorted(calls[6:12]) == list("aabbcc")
