"""Saved and loaded, under autocast, with huge and infinite scores, with nothing to read: every score and alignment."""

import copy
import itertools
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import Attention, attend
from regard.attention.alignments import ALIGNMENTS
from regard.attention.masks import causal, padding
from regard.attention.scores import SCORES
from tests.contracts.cases import (
    KEYS,
    LENGTHS,
    QUERIES,
    QUERY_SIZE,
    VALUE_SIZE,
    inputs,
    key_size,
    make_alignment,
    make_score,
    position_info,
)

pairs = pytest.mark.parametrize(
    ("score_name", "align_name"),
    [pytest.param(score, align, id=f"{score}-{align}") for score in SCORES for align in ALIGNMENTS],
)


@pairs
def test_saved_and_loaded_gives_the_same(score_name, align_name, tmp_path):
    made = Attention(make_score(score_name), make_alignment(align_name)).eval()
    torch.save(made.state_dict(), tmp_path / "state.pt")
    torch.manual_seed(99)
    other = copy.deepcopy(made)
    for parameter in other.parameters():
        torch.nn.init.normal_(parameter)
    other.load_state_dict(torch.load(tmp_path / "state.pt", weights_only=True))
    queries, keys, values = inputs(score_name)
    found = [
        module(queries, module.prepare_memory(keys, values), position_info=position_info(), return_weights=True).context
        for module in (made, other)
    ]
    assert torch.equal(*found)


@pairs
def test_runs_under_autocast(score_name, align_name):
    score, align = make_score(score_name, torch.float32), make_alignment(align_name, torch.float32)
    tensors = inputs(score_name, torch.float32, requires_grad=True)
    with torch.autocast("cpu", torch.bfloat16):
        fused = attend(*tensors, score=score, align=align, mask=padding(LENGTHS), position_info=position_info()).context
        formed = attend(
            *tensors,
            score=score,
            align=align,
            mask=padding(LENGTHS),
            position_info=position_info(),
            return_weights=True,
        ).context
    assert fused.float().allclose(formed.float(), atol=0.1)
    formed.float().sum().backward()
    assert all(tensor.grad is None or tensor.grad.isfinite().all() for tensor in tensors)


@pairs
def test_huge_scores_give_no_nan(score_name, align_name):
    # half precision's own largest number is 65504; past it the inputs themselves would be infinite
    for dtype, scale in (
        *itertools.product((torch.float32, torch.bfloat16), (1e2, 1e4, 1e15, 1e30)),
        (torch.float16, 1e4),
    ):
        score, align = make_score(score_name, dtype), make_alignment(align_name, dtype)
        queries, keys, values = inputs(score_name, torch.float32)
        # one huge number in one query and one key: their score overflows to infinity, others stay ordinary
        queries[0, 0, 0], keys[0, 1, 0] = scale, scale
        tensors = [tensor.to(dtype).requires_grad_() for tensor in (queries, keys, values)]
        for return_weights in (True, False):
            options = {
                "score": score,
                "align": align,
                "position_info": position_info(),
                "return_weights": return_weights,
            }
            found = attend(*tensors, mask=causal() & padding(LENGTHS), **options).context
            assert not found.isnan().any(), (dtype, scale, return_weights)
            loss = found.float().clamp(-1e4, 1e4).sum()
            for gradient in torch.autograd.grad(loss, tensors, allow_unused=True):
                assert gradient is None or not gradient.isnan().any(), (dtype, scale, return_weights)


@dataclass(frozen=True)
class Given:
    """A score that says what it was told."""

    scores: torch.Tensor

    def prepare(self, keys):
        return keys

    def lower(self, queries, keys):
        return "these scores are given"

    def __call__(self, queries, keys):
        return self.scores


@pytest.mark.parametrize("align_name", ALIGNMENTS)
def test_infinite_scores_are_defined(align_name):
    infinity = float("inf")
    rows = [
        [infinity, 1.0, infinity],
        [-infinity, 1.0, 2.0],
        [-infinity] * 3,
        [infinity] * 3,
        [infinity, -infinity, 0.0],
    ]
    scores = torch.tensor([rows], dtype=torch.float64, requires_grad=True)
    values = torch.randn(1, 3, VALUE_SIZE, dtype=torch.float64, requires_grad=True)
    queries = torch.randn(1, 5, QUERY_SIZE, dtype=torch.float64)
    found = attend(
        queries,
        torch.randn(1, 3, 2, dtype=torch.float64),
        values,
        score=Given(scores),
        align=make_alignment(align_name),
        position_info=position_info(),
        return_weights=True,
    )
    assert found.weights.isfinite().all() and found.context.isfinite().all()
    assert (found.weights[scores == -infinity] == 0).all(), "-inf may not be read"
    if align_name in ("softmax", "sparsemax", "entmax", "ratio"):
        assert found.weights[0, 0].allclose(torch.tensor([0.5, 0.0, 0.5], dtype=torch.float64))
        assert found.weights[0, 3].allclose(torch.full((3,), 1 / 3, dtype=torch.float64))
    found.context.sum().backward()
    assert values.grad.isfinite().all()
    assert scores.grad is None or scores.grad.isfinite().all()


@pairs
def test_nothing_to_read_gives_zeros(score_name, align_name):
    score, align = make_score(score_name), make_alignment(align_name)
    queries, keys, values = inputs(score_name, requires_grad=True)
    for return_weights in (True, False):
        read = attend(
            queries,
            keys[:, :0],
            values[:, :0],
            score=score,
            align=align,
            position_info=position_info(),
            return_weights=return_weights,
        )
        assert read.context.shape == (queries.shape[0], QUERIES, VALUE_SIZE)
        assert (read.context == 0).all()
        read.context.sum().backward()
        assert queries.grad is None or (queries.grad == 0).all()


@pytest.mark.parametrize("align_name", ALIGNMENTS)
@pytest.mark.parametrize("score_name", SCORES)
@given(data=st.data())
def test_any_shape(score_name, align_name, data):
    leading = data.draw(st.lists(st.integers(0, 3), max_size=3))
    num_queries, num_keys = data.draw(st.integers(0, 4)), data.draw(st.integers(0, KEYS))
    score, align = make_score(score_name), make_alignment(align_name)
    queries = torch.randn(*leading, num_queries, QUERY_SIZE, dtype=torch.float64)
    keys = torch.randn(*leading, num_keys, key_size(score_name), dtype=torch.float64)
    values = torch.randn(*leading, num_keys, VALUE_SIZE, dtype=torch.float64)
    options = {"score": score, "align": align, "mask": causal(), "position_info": position_info(num_queries)}
    formed = attend(queries, keys, values, **options, return_weights=True)
    assert formed.weights.shape == (*leading, num_queries, num_keys)
    assert formed.context.shape == (*leading, num_queries, VALUE_SIZE)
    assert attend(queries, keys, values, **options).context.allclose(formed.context, atol=1e-10)
