"""The example score of CONTRIBUTING.md keeps the contract: an id for each alignment and check."""

import re
from functools import cache
from pathlib import Path

import pytest

from regard.attention import ALIGNMENTS
from regard.testing import CASE_CHECKS, SCORE_CHECKS
from regard.testing.attention import alignment_case, check_grid

CONTRIBUTING = Path(__file__).parents[2] / "CONTRIBUTING.md"


def manhattan():
    """The score as the first code block of the page defines it."""
    block = re.search(r"```python\n(.*?)```", CONTRIBUTING.read_text(encoding="utf-8"), re.DOTALL)[1]
    names = {}
    exec(compile(block, CONTRIBUTING.name, "exec"), names)
    return names["Manhattan"]()


@cache
def case_of(align_name):
    return alignment_case(manhattan(), align_name, query_size=8, key_size=8)


# torch.compile cannot trace the run-time checks of shapes; tests/test_guides.py runs `check_score` without them
CHECKS = [check for check in (*SCORE_CHECKS, check_grid, *CASE_CHECKS) if check.__name__ != "check_compiled"]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("align_name", ALIGNMENTS)
def test_manhattan(align_name, check):
    check(case_of(align_name))
