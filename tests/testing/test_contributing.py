"""The example score of CONTRIBUTING.md keeps the contract: an id for each alignment and check."""

import re
from functools import cache
from pathlib import Path

import pytest
import torch
from torch import nn

from regard.attention import ALIGNMENTS
from regard.testing import CASE_CHECKS, SCORE_CHECKS, check_score
from regard.testing.attention import alignment_case, check_grid

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def manhattan():
    """The score as the page defines it."""
    (block,) = (
        code for code in re.findall(r"```python\n(.*?)```", CONTRIBUTING.read_text(), re.S) if "Manhattan" in code
    )
    names = {"torch": torch, "nn": nn}
    exec(compile(block, CONTRIBUTING.name, "exec"), names)
    return names["Manhattan"]()


@cache
def case_of(align_name):
    return alignment_case(manhattan(), align_name, query_size=8, key_size=8)


# the compiler cannot see through the run-time checks of shapes: `check_score` below runs without them
CHECKS = [check for check in (*SCORE_CHECKS, check_grid, *CASE_CHECKS) if check.__name__ != "check_compiled"]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("align_name", ALIGNMENTS)
def test_manhattan(align_name, check):
    check(case_of(align_name))


@pytest.mark.unchecked
def test_manhattan_by_check_score():
    check_score(manhattan(), query_size=8, alignments=["softmax", "sigmoid"])
