"""Findings: statistics that can be negative, tables with all digits, complete files."""

import csv
import inspect
import io
import re

import pytest
import torch

from regard.contracts import Title
from regard.experiments import EXPERIMENTS
from regard.experiments.cost import LENGTHS as COST_LENGTHS
from regard.experiments.lib import Finding, Measured, record
from regard.experiments.lib.finding import clearly_above, digits, slope, table_bytes
from regard.experiments.lib.small_transformer import seeded

SMALL = {
    "pooling": {"repeats": 4, "steps": 20, "sizes": (50, 200)},
    "scaling": {"repeats": 2, "sizes": (4, 64), "num_queries": 32},
    "embedding_scale": {"sizes": (32, 64), "vocab_size": 50},
    "permutation": {"repeats": 2, "length": 6},
    "cost": {"turns": 2, "size": 8, "num_heads": 2, "lengths": dict.fromkeys(COST_LENGTHS, (4, 8, 16))},
    "heads_specialise": {"repeats": 2, "steps": 3, "size": 8, "num_heads": 1, "length": 8, "num_symbols": 4},
    "attention_span": {"seeds": 2, "epochs": 1, "hidden_size": 4, "vocab_size": 50, "characters": 3000},
    "one_state_three_rules": {"repeats": 2, "steps": 3, "sizes": (4,), "pairs": (2, 4), "num_symbols": 8},
    "causal_mask": {"repeats": 2, "steps": 5, "size": 16, "length": 5},
    "dot_against_cosine": {"repeats": 2, "steps": 5, "spreads": (0.5, 1.0)},
    "dynamic_weights": {"repeats": 2, "steps": 3, "head_size": 4, "num_heads": 2, "length": 4},
    "ngram_tables": {"repeats": 2, "orders": 2, "equal_order": 1, "vocab_size": 40, "epochs": 1, "characters": 3000},
    "separate_values": {"repeats": 2, "steps": 3, "hidden_size": 8, "heads": (1, 2), "length": 4},
    "score_cost": {"turns": 3, "lengths": (4, 8)},
    "shift": {"repeats": 2, "hidden_size": 8, "num_heads": 2, "frame": 12, "block": 4},
    "bottleneck": {"seeds": 2, "steps": 2, "size": 4, "num_words": 3, "trained": (1, 2), "lengths": (1, 2, 3)},
    "distance": {"seeds": 2, "steps": 2, "size": 4, "num_symbols": 3, "distances": (1, 4)},
    "gradients": {"seeds": 2, "size": 4, "distances": (1, 2, 4), "depths": (1, 2)},
    "parallelism": {"rounds": 2, "repeats": 1, "size": 4, "tokens": 16, "lengths": (4, 8, 16)},
    "own_outputs": {
        "seeds": 2,
        "steps": 2,
        "size": 4,
        "num_symbols": 4,
        "num_words": 3,
        "length": 3,
        "examples": 4,
    },
    "alignment": {"repeats": 2, "num_pairs": 20, "num_test": 4, "steps": 2, "hidden_size": 8},
    "directions": {"seeds": 2, "steps": 2, "size": 4},
    "feed_forward": {"seeds": 2, "steps": 2, "size": 8, "length": 4},
}
TIMED = ("parallelism", "cost", "score_cost")
"""Experiments that measure time, whose numbers differ from run to run."""


def a_finding(**changes):
    rows = ({"name": "a", "size": 3, "error": Measured(0.123456789, 0.5)}, {"name": "b", "size": 4, "error": 0.25})
    fields = {
        "name": "made_up",
        "claim": Title(en="So.", zh="如此。"),
        "rows": rows,
        "verdict": Title(en="Yes.", zh="是。"),
        "holds": True,
    }
    return Finding(**(fields | {"draw": lambda figure: figure.subplots().plot([1, 2])} | changes))


def test_measured_is_the_mean_and_the_standard_deviation():
    measured = Measured.of([1.0, 2.0, 6.0])
    assert measured.mean == pytest.approx(3.0)
    assert measured.spread == pytest.approx(7.0**0.5)
    assert str(Measured(0.2291, 0.0552)) == "0.229 ± 0.06"
    with pytest.raises(ValueError, match="1 repetition has no standard deviation"):
        Measured.of([1.0])


@pytest.mark.parametrize(
    ("value", "expected"),
    [(0.0, "0"), (0.22912, "0.229"), (1018.2, "1018"), (3.0, "3.00"), (0.000271, "2.7e-04"), (-0.5, "-0.500")],
)
def test_numbers_have_three_significant_digits(value, expected):
    assert digits(value) == expected


def test_a_difference_within_chance_is_not_significant():
    assert clearly_above([1.0, 1.1, 1.2], [0.5, 0.6, 0.6])
    assert not clearly_above([1.0, 0.4, 1.2], [0.9, 0.9, 0.9])
    assert not clearly_above([0.5, 0.6, 0.6], [1.0, 1.1, 1.2])
    # the same gap, paired run by run, is clear however much the runs differ
    assert clearly_above([1.1, 5.1, 9.2], [1.0, 5.0, 9.0])


def test_slope_is_the_exponent():
    assert slope([10, 100, 1000], [3 * size**-0.4 for size in (10, 100, 1000)]) == pytest.approx(-0.4)


def test_a_seed_is_reproducible_and_leaves_other_generators_unchanged():
    before, threads = torch.random.get_rng_state(), torch.get_num_threads()
    with seeded(3):
        first = torch.rand(3)
    assert torch.equal(torch.random.get_rng_state(), before)
    assert torch.get_num_threads() == threads
    torch.rand(1)
    with seeded(3):
        assert torch.equal(torch.rand(3), first)
    with seeded(4):
        assert not torch.equal(torch.rand(3), first)


def test_the_table_has_every_digit_and_the_spread():
    rows = list(csv.DictReader(io.StringIO(table_bytes(a_finding()).decode())))
    assert rows == [
        {"name": "a", "size": "3", "error": "0.123456789", "error spread": "0.5"},
        {"name": "b", "size": "4", "error": "0.25", "error spread": ""},
    ]


def test_a_record_is_written_atomically_and_not_over_another(tmp_path):
    paths = record(a_finding(), tmp_path / "new")
    assert [path.name for path in paths] == ["made_up.png", "made_up.svg", "made_up.csv"]
    assert paths[0].read_bytes().startswith(b"\x89PNG")
    assert b"<svg" in paths[1].read_bytes()
    old = [path.read_bytes() for path in paths]
    with pytest.raises(ValueError, match=r"made_up.png exists"):
        record(a_finding(rows=({"name": "c"},)), tmp_path / "new")
    assert [path.read_bytes() for path in paths] == old
    record(a_finding(rows=({"name": "c"},)), tmp_path / "new", overwrite=True)
    assert paths[2].read_text() == "name\nc\n"
    assert len(list((tmp_path / "new").iterdir())) == 3


def test_the_table_of_experiments_is_in_order_and_complete():
    numbers = [int(experiment.number.removeprefix("G")) for experiment in EXPERIMENTS.values()]
    assert numbers == sorted(numbers)
    assert set(SMALL) == set(EXPERIMENTS)
    for experiment in EXPERIMENTS.values():
        assert experiment.claim.en.endswith(".")
        assert experiment.claim.zh.endswith("。")
        assert experiment.title.en
        assert experiment.title.zh
        assert experiment.paper.startswith("https://")
        # --full gives arguments of `run`
        assert set(experiment.full) <= set(inspect.signature(experiment.run).parameters)


@pytest.mark.parametrize("name", EXPERIMENTS)
def test_every_experiment_draws_its_claim_and_is_reproducible(name, tmp_path):
    finding = EXPERIMENTS[name].run(seed=1, **SMALL[name])
    assert finding.name == name
    assert finding.claim == EXPERIMENTS[name].claim
    assert all(tuple(row) == finding.columns for row in finding.rows)
    svg = next(path for path in record(finding, tmp_path) if path.suffix == ".svg").read_text(encoding="utf-8")
    drawn = " ".join(re.findall(r"<text[^>]*>([^<]*)</text>", svg))
    assert " ".join(finding.claim.en.split()[:4]) in drawn
    again = EXPERIMENTS[name].run(seed=1, **SMALL[name])
    if name in TIMED:
        assert [list(row) for row in again.rows] == [list(row) for row in finding.rows]
        assert len(again.verdict.en.split()) > 5
        return
    assert (again.rows, again.verdict) == (finding.rows, finding.verdict)
    assert EXPERIMENTS[name].run(seed=2, **SMALL[name]).rows != finding.rows
