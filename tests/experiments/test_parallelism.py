"""Parallelism: the verdict is about growth; times of this machine are not asserted."""

import pytest

from regard.experiments import parallelism
from regard.experiments.lib.sizes import equal_sizes
from regard.experiments.parallelism import SYSTEMS, build, exponents_of, judge
from regard.tasks import count_parameters

LENGTHS = (10, 100, 1000)


def times_of(**exponents):
    """Microseconds that follow power laws, a little different in each of three rounds."""
    laws = {"RNN": 0.9, "LSTM": 0.8, "CNN": 0.0, "Attention": 0.2} | exponents
    return {
        name: [[(1 + noise) * length ** (law + noise) for length in LENGTHS] for noise in (0.0, 0.01, -0.01)]
        for name, law in laws.items()
    }


def judged(times):
    return judge(times, LENGTHS, machine="CPU", num_threads=2)


def test_serial_growth_above_parallel_growth_confirms_the_claim():
    holds, verdict = judged(times_of())
    assert holds is True
    assert "the growth of both is faster" in verdict.en


@pytest.mark.parametrize(
    ("exponents", "sentence"),
    [
        ({"Attention": 0.85}, "LSTM than Attention"),
        ({"CNN": 1.0}, "RNN than CNN, LSTM than CNN"),
        ({"RNN": 0.0}, "RNN does not grow"),
    ],
)
def test_other_growth_refutes_it(exponents, sentence):
    holds, verdict = judged(times_of(**exponents))
    assert holds is False
    assert sentence in verdict.en


def test_times_that_vary_too_much_decide_nothing():
    varying = times_of() | {"LSTM": [[1.0, 1.0, 1.0], [1.0, 1.0, 1.0], [1.0, 100.0, 10_000.0]]}
    holds, verdict = judged(varying)
    assert holds is None
    assert "LSTM may grow" in verdict.en


def test_the_exponent_is_that_of_the_power_law():
    exponents = exponents_of(times_of(), LENGTHS)
    assert exponents["RNN"] == pytest.approx([0.9, 0.91, 0.89])


def test_the_table_has_a_time_for_each_length_and_systems_have_one_size():
    finding = parallelism.run(rounds=2, repeats=1, size=8, tokens=32, lengths=(4, 8))
    assert [row["system"] for row in finding.rows] == list(SYSTEMS)
    assert all(row[f"{length}: μs"].mean > 0 for row in finding.rows for length in (4, 8))
    counts = [
        count_parameters(build(name, own))
        for name, own in equal_sizes(build, list(SYSTEMS), reference="LSTM", size=64).items()
    ]
    assert max(counts) < 1.05 * min(counts)


@pytest.mark.cuda
def test_a_gpu_is_measured_after_its_work_is_done():
    finding = parallelism.run(rounds=2, repeats=1, size=8, tokens=64, lengths=(4, 32), device="cuda")
    assert "(CUDA, threads" in finding.verdict.en
