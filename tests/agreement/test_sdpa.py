"""The same numbers as torch's own scaled_dot_product_attention."""

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given
from hypothesis import strategies as st

from regard import attend
from regard.attention.masks import causal

sizes = st.integers(1, 9)


@given(batch=sizes, heads=sizes, queries=sizes, keys=sizes, size=sizes, value_size=sizes)
def test_any_shape_without_a_mask(batch, heads, queries, keys, size, value_size):
    q = torch.randn(batch, heads, queries, size)
    k = torch.randn(batch, heads, keys, size)
    v = torch.randn(batch, heads, keys, value_size)
    expected = F.scaled_dot_product_attention(q, k, v)
    assert attend(q, k, v).context.allclose(expected, atol=1e-5)
    assert attend(q, k, v, return_weights=True).context.allclose(expected, atol=1e-5)


@given(queries=sizes, more=st.integers(0, 6))
def test_causal_is_lower_right_aligned(queries, more):
    keys = queries + more
    q, k, v = torch.randn(2, queries, 4), torch.randn(2, keys, 4), torch.randn(2, keys, 4)
    mask = torch.ones(queries, keys, dtype=torch.bool).tril(diagonal=more)
    expected = F.scaled_dot_product_attention(q, k, v, attn_mask=mask)
    assert attend(q, k, v, mask=causal()).context.allclose(expected, atol=1e-5)


@pytest.mark.parametrize("return_weights", [True, False])
def test_dropout_rescales_the_remaining_weights(return_weights):
    torch.manual_seed(0)
    q, k = torch.zeros(1, 2000, 4), torch.zeros(1, 10, 4)
    values = torch.eye(10)[None]
    used = attend(q, k, values, dropout=0.3, return_weights=return_weights).context
    nonzero = used > 0
    assert used[nonzero].allclose(torch.tensor(0.1 / 0.7))
    assert abs(nonzero.float().mean().item() - 0.7) < 0.02


def test_weights_returned_under_dropout_are_those_used():
    q, k, v = torch.randn(2, 5, 4), torch.randn(2, 6, 4), torch.randn(2, 6, 3)
    attended = attend(q, k, v, dropout=0.5, return_weights=True)
    assert (attended.weights == 0).any()
    assert (attended.weights @ v).allclose(attended.context, atol=1e-6)
