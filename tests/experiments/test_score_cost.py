"""The cost of scores: the verdict from synthetic times; the real ones are never tested."""

import pytest

from regard.experiments.score_cost import DEFAULT, FORMED, candidates, judge, rows_of


def times_of(*, cosine=1.3, additive=20.0, noise=0.01):
    """Times of 20 turns at two lengths; those of the other scores as multiples of dot."""
    ticks = [1 + noise * (-1) ** turn for turn in range(20)]
    return {
        (path, length): {
            "dot": [length * tick for tick in ticks],
            # in the other turns up, so that noise does not cancel
            "cosine": [cosine * length * (2 - tick) for tick in ticks],
            "additive": [additive * length * (2 - tick) for tick in ticks],
        }
        for path in (FORMED, DEFAULT)
        for length in (64, 128)
    }


def test_the_claim_holds_if_both_are_slower_at_every_length():
    holds, verdict = judge(times_of())
    assert holds is True
    assert "clearly slower at 2 of 2 lengths" in verdict.en


@pytest.mark.parametrize("changes", [{"cosine": 0.8}, {"additive": 0.5}])
def test_a_faster_score_refutes_it(changes):
    holds, verdict = judge(times_of(**changes))
    assert holds is False
    assert "faster at 2" in verdict.en


def test_times_within_the_noise_do_not_decide():
    holds, verdict = judge(times_of(cosine=1.001, noise=0.2))
    assert holds is None
    assert "slower at 0 of 2, faster at 0" in verdict.en


def test_one_undecided_length_leaves_the_claim_open():
    times = times_of()
    times[DEFAULT, 128] = times_of(cosine=1.0, noise=0.2)[DEFAULT, 128]
    assert judge(times)[0] is None


def test_the_table_has_the_ratios():
    row = rows_of(times_of())[0]
    assert row["additive / dot"] == pytest.approx(20.0)
    assert row["dot (ms)"].mean == pytest.approx(64e3)


def test_formed_and_default_compute_the_same_kind_of_attention():
    for formed in (True, False):
        attended = {name: compute() for name, compute in candidates(8, 4, formed=formed).items()}
        assert all((one.weights is not None) is formed for one in attended.values())
        assert all(one.context.shape == (1, 8, 4) for one in attended.values())
