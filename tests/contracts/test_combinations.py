"""One list of checks over every score x alignment x mask x dtype: a new entry is tested by being listed."""

import pytest
import torch

from regard import attend
from regard.attention.alignments import ALIGNMENTS
from regard.attention.scores import SCORES
from tests.contracts.cases import (
    DTYPES,
    MASK_CASES,
    TOLERANCE,
    allowed,
    inputs,
    make_alignment,
    make_mask,
    make_score,
    position_info,
)


def read(score_name, tensors, score, align, mask, **options):
    return attend(
        *tensors, score=score, align=align, mask=mask, position_info=position_info(), return_weights=True, **options
    )


@pytest.mark.parametrize("dtype", DTYPES, ids=lambda dtype: str(dtype).removeprefix("torch."))
@pytest.mark.parametrize("mask_name", MASK_CASES)
@pytest.mark.parametrize("align_name", ALIGNMENTS)
@pytest.mark.parametrize("score_name", SCORES)
def test_keeps_the_contract(score_name, align_name, mask_name, dtype):
    score, align, mask = make_score(score_name, dtype), make_alignment(align_name, dtype), make_mask(mask_name)
    tensors = inputs(score_name, dtype, requires_grad=True)
    may, tolerance = allowed(mask), TOLERANCE[dtype]
    found = read(score_name, tensors, score, align, mask)
    weights, context = found.weights, found.context

    assert weights.shape == may.shape and weights.dtype == context.dtype == dtype
    assert weights.isfinite().all() and context.isfinite().all()
    assert (weights >= 0).all()
    assert (weights[~may] == 0).all(), "a forbidden key has weight"
    empty = ~may.any(-1)
    assert (weights[empty] == 0).all() and (context[empty] == 0).all(), "an empty row is not zeros"
    if align.sums_to_one:
        total = weights.double().sum(-1)
        # what scores nothing anywhere has nothing to share (ratio); what lies outside a window is empty (local)
        assert torch.where(total.abs() < tolerance, torch.ones_like(total), total).allclose(
            torch.ones_like(total), atol=5 * tolerance
        )
    assert context.double().allclose(weights.double() @ tensors[2].double(), atol=5 * tolerance)
    check_gradients(found, tensors, may)
    check_unread_keys(found, score_name, score, align, mask, may, dtype)
    check_batch_of_one(found, score_name, score, align, mask_name, dtype)


def check_gradients(found, tensors, may):
    """Finite everywhere, and exactly 0 at what nobody may read."""
    loss = found.context.float().square().sum()
    if found.sample_log_prob is not None:
        loss = loss + found.sample_log_prob.float().sum()
    gradients = torch.autograd.grad(loss, tensors, allow_unused=True)
    unread = ~may.any(-2)
    for gradient in gradients:
        assert gradient is None or gradient.isfinite().all()
    for gradient in gradients[1:]:
        assert gradient is None or (gradient[unread] == 0).all(), "a key nobody may read has a gradient"
    blind = gradients[0]
    assert blind is None or (blind[~may.any(-1)] == 0).all(), "a query that reads nothing has a gradient"


def check_unread_keys(found, score_name, score, align, mask, may, dtype):
    """Padding never changes the answer: what nobody may read may hold anything."""
    queries, keys, values = inputs(score_name, dtype)
    unread = ~may.any(-2).unsqueeze(-1)
    _, other_keys, other_values = inputs(score_name, dtype, seed=9)
    changed = (queries, torch.where(unread, 3 * other_keys, keys), torch.where(unread, other_values, values))
    again = read(score_name, changed, score, align, mask)
    assert again.context.double().allclose(found.context.double(), atol=5 * TOLERANCE[dtype])


def check_batch_of_one(found, score_name, score, align, mask_name, dtype):
    """A row alone gives what it gives among others."""
    if "padding" in mask_name:
        return  # its lengths belong to the whole batch; test_masks looks at them row by row
    alone = tuple(tensor[1:2] for tensor in inputs(score_name, dtype))
    again = read(score_name, alone, score, align, make_mask(mask_name))
    assert again.context.double().allclose(found.context[1:2].double(), atol=5 * TOLERANCE[dtype])
