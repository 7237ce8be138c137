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
    rct, *others = short_rows(runs)
    assert rct[0].startswith("RCTM") and any("RCTM I" in line and rct[2] in line for line in lines)
    for title, year, *figures in others:
        # the third column, the attention in words, differs between the languages
        assert rows[title][1] == year and rows[title][3:] == figures


def test_every_system_has_a_line(runs):
    head = page(runs, ()).split("### BLEU by source length")[0]
    for entry in TRANSLATION_MODELS.values():
        assert f"| {entry.title}" in head


def test_the_verdict_can_be_negative(runs):
    assert "The gain grows with the length." in page(runs, ())
    other = copy.deepcopy(runs)
    for bucket in other["bahdanau-0"]["test"]["by_length"]:
        bucket["value"] = 10.0 if bucket["first"] == 21 else 40.0
    assert "The gain does not grow steadily with the length." in page(other, ())
