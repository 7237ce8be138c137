"""docs/results.md equals the output of the script for the results."""

import copy
import json

import pytest

from benchmarks.harness import RESULTS
from benchmarks.results_page import PAGE, page, recorded_page, short_rows
from regard.models.translation import TRANSLATION_MODELS


@pytest.fixture(scope="module")
def runs():
    return json.loads((RESULTS / "systems.json").read_text())


def test_the_page_equals_the_output_of_the_script():
    assert PAGE.read_text(encoding="utf-8") == recorded_page(), "run: python -m benchmarks.results_page"


@pytest.mark.parametrize("readme", ["README.md", "README.zh.md"])
def test_the_readmes_have_the_same_figures(runs, readme):
    lines = (PAGE.parents[1] / readme).read_text(encoding="utf-8").splitlines()
    rows = {
        cells[0]: cells for line in lines if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 6
    }
    for title, year, *figures in short_rows(runs):
        # the third column, the attention in words, differs between the languages
        assert rows[title][1] == year and rows[title][3:] == figures


def test_every_system_has_a_line(runs):
    head = page(runs, ()).split("### BLEU by source length")[0]
    for entry in TRANSLATION_MODELS.values():
        assert f"| {entry.title}" in head


def test_the_verdict_can_be_negative(runs):
    assert "The gain grows with the length." in page(runs, ())
    other = copy.deepcopy(runs)
    for seed in (0, 1, 2):
        (lengths,) = (one for one in other[f"bahdanau-{seed}"]["test"]["tables"] if one["name"] == "by_length")
        for row in lengths["rows"]:
            row[2] = 10.0 if row[0].startswith("21") else 40.0
    assert "The gain does not grow steadily with the length." in page(other, ())


def test_a_system_with_several_seeds_has_its_mean_and_deviation(runs):
    line = next(line for line in page(runs, ()).splitlines() if line.startswith("| RCTM II |"))
    assert "31.51 ± 0.11" in line
    assert "0, 1, 2" in line


def test_runs_with_former_settings_are_marked(runs):
    text = page(runs, ())
    assert "| Luong, dot, global * |" in text
    assert "| Transformer * | 2017 | **40" not in text


def test_perplexity_is_beside_that_without_a_source(runs):
    without = copy.deepcopy(runs)
    for key in [key for key in without if key.startswith("rctm_none")]:
        del without[key]
    assert "RCTM I 12.2 (0.34)" in page(runs, ())
    assert "as a share of that without a source" not in page(without, ())
