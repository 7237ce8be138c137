"""The section on parallel implementations covers every case that was measured, and follows the recorded ratios."""

import re

import pytest

from benchmarks import ablation_page


@pytest.fixture(scope="module")
def reports():
    return [report for name in ablation_page.FILES for report in ablation_page.load(name)]


def test_a_decision_covers_every_case_but_products_of_the_formula(reports):
    for report in reports:
        matching = [each for each in ablation_page.DECISIONS if re.match(each.cases, report["question"])]
        # cases of Gaussian kernels alone have the formula as their baseline; the training step decides
        assert matching or report["question"].startswith("Gaussian backward: ("), report["question"]


def test_every_case_has_a_row_without_local_paths(reports):
    section = ablation_page.section()
    for report in reports:
        assert f"| {report['question'].removeprefix(report['notes']['group'] + ': ')} |" in section
    assert "--out" not in section


def test_a_kept_implementation_reaches_the_threshold_somewhere(reports):
    for each in ablation_page.DECISIONS:
        ratios = [
            ratio
            for report in reports
            if re.match(each.cases, report["question"])
            for ratio in ablation_page.ratios_of_decision(report, each)
        ]
        assert ratios, each.implementation
        if each.implementation == "packed rows, eager or on a CPU":
            assert each.reason.startswith("no faster, and no code of its own")
        elif each.decision == "kept":
            assert max(ratios) >= 1.3, each.implementation


def test_a_span_of_equal_figures_is_one_figure():
    assert ablation_page.span([1.001, 1.0]) == "1.00"
    assert ablation_page.span([2.0, 1.5]) == "1.50-2.00"
    assert ablation_page.span([]) == ablation_page.UNMEASURED
