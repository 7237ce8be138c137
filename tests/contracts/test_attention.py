"""The checks of regard.testing over every score x alignment x mask x dtype: a new entry is tested by being listed."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.attention import ALIGNMENTS, SCORES, which_backend
from regard.attention.masks import causal, padding
from regard.kernels.additive import operator
from regard.testing import (
    ALIGNMENT_CHECKS,
    CASE_CHECKS,
    GRID_CHECKS,
    MASK_CHECKS,
    SCORE_CHECKS,
    Combination,
    MaskCase,
)
from tests.contracts.cases import DTYPES, LENGTHS, MASK_CASES, inputs, make_case, make_mask, make_score

# torch.compile cannot trace the run-time checks of shapes (tests/test_compile.py), and CUDA may be absent
ELSEWHERE = ("check_compiled", "check_cuda_equals_cpu")
LOWERED = [name for name in SCORES if name not in ("additive", "concat", "activated_general")]
RULES = [name for name in MASK_CASES if name not in ("none", "tensor")]


def checked_only(name, table):
    """Every entry; run-time checks of shapes, two thirds of the time, are for this one alone."""
    return [entry if entry == name else pytest.param(entry, marks=pytest.mark.unchecked) for entry in table]


every_score = pytest.mark.parametrize("score_name", SCORES)
every_alignment = pytest.mark.parametrize("align_name", ALIGNMENTS)
alignment_of_grid = pytest.mark.parametrize("align_name", checked_only("softmax", ALIGNMENTS))


@pytest.fixture(autouse=True, scope="module")
def _fused_kernels_at_any_size():
    """Additive attention over few queries and keys is formed, because that is faster; here it must be fused."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(operator.WORTH_IT, "cpu", 0)
        patch.setattr(operator, "FEWEST", 1)
        yield


def each(checks):
    return pytest.mark.parametrize("check", [check for check in checks if check.__name__ not in ELSEWHERE])


@pytest.mark.parametrize("mask_name", checked_only("causal", MASK_CASES))
@every_alignment
@every_score
def test_keeps_the_contract(score_name, align_name, mask_name):
    for dtype in DTYPES:
        combination = Combination(case=make_case(score_name, align_name), mask_name=mask_name, dtype=dtype)
        for check in GRID_CHECKS:
            check(combination)


@each(CASE_CHECKS)
@alignment_of_grid
@every_score
def test_score_with_alignment(score_name, align_name, check):
    check(make_case(score_name, align_name))


@each(SCORE_CHECKS)
@every_score
def test_score(score_name, check):
    check(make_case(score_name, "softmax"))


@each(ALIGNMENT_CHECKS)
@every_alignment
def test_alignment(align_name, check):
    check(make_case("dot", align_name))


@each(MASK_CHECKS)
@pytest.mark.parametrize("mask_name", RULES)
def test_mask(mask_name, check):
    check(MaskCase(mask_name, make_mask(mask_name)))


@alignment_of_grid
@every_score
@given(data=st.data())
def test_any_shape(score_name, align_name, data):
    leading = data.draw(st.lists(st.integers(0, 3), max_size=3))
    num_queries, num_keys = data.draw(st.integers(0, 4)), data.draw(st.integers(0, 7))
    (check,) = (check for check in CASE_CHECKS if check.__name__ == "check_shapes")
    check(make_case(score_name, align_name), [(tuple(leading), num_queries, num_keys)])


@every_score
def test_the_fused_axis_runs_fused_kernels(score_name):
    """Otherwise the comparison of both paths would compare the formed path with itself."""
    for dtype in DTYPES:
        for mask in (make_mask(name) for name in MASK_CASES):
            choice = which_backend(*inputs(score_name, dtype), score=make_score(score_name, dtype), mask=mask)
            assert (choice.backend == "plain") == (score_name == "activated_general"), (dtype, mask, choice)


@pytest.mark.parametrize("score_name", LOWERED)
def test_gradcheck_runs_the_kernel_of_dot_products(score_name):
    tensors = [tensor.requires_grad_() for tensor in inputs(score_name)]
    choice = which_backend(*tensors, score=make_score(score_name), mask=causal() & padding(LENGTHS))
    assert choice.backend == "sdpa"
