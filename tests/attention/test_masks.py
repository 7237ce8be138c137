"""Masks: each rule by hand, their algebra, and the equality of a rule's three forms."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import Attention, attend
from regard.attention.masks import causal, dilated, padding, predicate, prefix, window
from regard.contracts import Grid
from tests.contracts.cases import MASK_CASES, allowed, make_mask


def grid_of(queries, keys, first_key=0, leading=()):
    return Grid.of(
        (*leading, queries, keys),
        device=torch.device("cpu"),
        first_query=first_key + keys - queries,
        first_key=first_key,
    )


def to_matrix(mask, queries=4, keys=6):
    return mask.allowed(grid_of(queries, keys)).expand(queries, keys).int().tolist()


def test_masks_equal_their_rules():
    assert to_matrix(causal(), 3, 3) == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]
    assert to_matrix(causal(), 2, 4) == [[1, 1, 1, 0], [1, 1, 1, 1]], "the last query is aligned with the last key"
    assert to_matrix(causal(), 3, 1) == [[0], [0], [1]], "queries before the first key attend to nothing"
    assert to_matrix(window(1), 3, 3) == [[1, 1, 0], [1, 1, 1], [0, 1, 1]]
    assert to_matrix(prefix(2), 2, 4) == [[1, 1, 0, 0]] * 2
    assert to_matrix(dilated(1, 2), 1, 5) == [[0, 0, 1, 0, 1]]
    assert to_matrix(predicate(lambda i, j: i != j), 2, 2) == [[0, 1], [1, 0]]
    assert to_matrix(~causal(), 2, 2) == [[0, 1], [0, 0]]
    assert to_matrix(causal() | prefix(2), 3, 3) == [[1, 1, 0], [1, 1, 0], [1, 1, 1]]


def test_padding_broadcasts_over_heads_and_applies_per_example():
    mask = padding(torch.tensor([1, 3]))
    assert mask.allowed(grid_of(2, 3, leading=(2,))).tolist() == [[[True, False, False]], [[True, True, True]]]
    per_head = mask.allowed(grid_of(2, 3, leading=(2, 5)))
    assert per_head.shape == (2, 1, 1, 3)
    both = padding(torch.tensor([[1, 2], [3, 0]])).allowed(grid_of(2, 3, leading=(2, 2)))
    assert both.sum(-1).flatten().tolist() == [1, 2, 3, 0]
    assert prefix(torch.tensor([1, 3])).allowed(grid_of(2, 3, leading=(2,))).sum() == 4


def test_a_tensor_composes_on_either_side():
    table = torch.tensor([[True, False], [True, True]])
    x = torch.randn(2, 3)
    for mask in (causal() & ~table, ~table & causal()):
        assert attend(x, x, x, mask=mask, return_weights=True).weights.tolist() == [[0, 0], [0, 0]]
    for mask in (table | prefix(2), prefix(2) | table):
        assert (attend(x, x, x, mask=mask, return_weights=True).weights > 0).all()


@given(st.data())
def test_a_span_contains_all_allowed_keys(data):
    leaf = st.sampled_from([causal(), window(2), prefix(5), dilated(1, 3), predicate(lambda i, j: i % 2 == j % 2)])
    mask = data.draw(
        st.recursive(
            leaf,
            lambda inner: (
                st.tuples(inner, inner).map(lambda pair: pair[0] & pair[1])
                | st.tuples(inner, inner).map(lambda pair: pair[0] | pair[1])
                | inner.map(lambda one: ~one)
            ),
            max_leaves=4,
        )
    )
    first, count = data.draw(st.integers(0, 12)), data.draw(st.integers(1, 5))
    low, high = mask.span(first, first + count - 1)
    keys = torch.arange(20)
    visible = mask.allowed(Grid(leading=(), queries=torch.arange(first, first + count)[:, None], keys=keys))
    outside = torch.zeros(20, dtype=torch.bool)
    if low is not None:
        outside |= keys < low
    if high is not None:
        outside |= keys >= high
    assert not (visible.expand(count, 20) & outside).any()


def test_padded_examples_equal_the_examples_alone():
    q, k, v = (torch.randn(3, length, 4) for length in (2, 5, 5))
    lengths = torch.tensor([5, 2, 0])
    together = attend(q, k, v, mask=padding(lengths)).context
    for row, length in enumerate(lengths.tolist()):
        alone = attend(q[row], k[row, :length], v[row, :length]).context
        assert together[row].allclose(alone, atol=1e-6)


def test_the_contract_cases_cover_empty_rows():
    assert any((~allowed(make_mask(name)).any(-1)).any() for name in MASK_CASES if name != "none")


@pytest.mark.parametrize("return_weights", [True, False])
def test_masks_per_example_apply_where_only_the_values_have_a_batch(return_weights):
    q, k, v = torch.randn(3, 4), torch.randn(5, 4), torch.randn(2, 5, 6)
    actual = attend(q, k, v, mask=padding(torch.tensor([5, 2])), return_weights=return_weights).context
    assert actual[0].allclose(attend(q, k, v[0]).context, atol=1e-6)
    assert actual[1].allclose(attend(q, k[:2], v[1, :2]).context, atol=1e-6)


@pytest.mark.parametrize("return_weights", [True, False])
@pytest.mark.parametrize("leading", [(), (1,), (4,), (1, 4), (3, 1)])
def test_a_memory_mask_broadcasts_as_its_keys(leading, return_weights):
    attention, queries = Attention(), torch.randn(3, 4, 2, 8)
    states, real = torch.randn(*leading, 5, 8), torch.rand(*leading, 5) > 0.4
    actual = attention(queries, attention.prepare_memory(states, mask=real), return_weights=return_weights).context
    expected = attend(queries, states, states, mask=real[..., None, :]).context
    assert actual.allclose(expected, atol=1e-6)
