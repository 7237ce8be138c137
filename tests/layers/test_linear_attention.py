"""Linear attention: chunks and steps equal the formula."""

import pytest
import torch

from regard.contracts import select_batch
from regard.layers.linear_attention import LinearAttention, elu_plus_one, identity, linear_attention

FORMS = [(elu_plus_one, True), (elu_plus_one, False), (identity, False), (torch.exp, True)]


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def by_formula(queries, keys, values, feature_map, normalised):
    weights = (feature_map(queries) @ feature_map(keys).transpose(-1, -2)).tril()
    return (weights / weights.sum(-1, keepdim=True) if normalised else weights) @ values


@pytest.mark.parametrize(("feature_map", "normalised"), FORMS)
@pytest.mark.parametrize("chunk", [1, 4, 64])
def test_chunks_equal_the_formula(feature_map, normalised, chunk):
    queries, keys, values = draw(2, 3, 11, 5), draw(2, 3, 11, 5), draw(2, 3, 11, 4)
    attended = linear_attention(queries, keys, values, feature_map=feature_map, normalised=normalised, chunk=chunk)
    expected = by_formula(queries, keys, values, feature_map, normalised)
    assert attended.context.allclose(expected, atol=1e-10, rtol=0)
    assert attended.state.sums.shape == (2, 3, 5, 4)


@pytest.mark.parametrize(("feature_map", "normalised"), FORMS)
def test_steps_and_pieces_equal_the_whole(feature_map, normalised):
    layer = LinearAttention(12, 3, feature_map=feature_map, normalised=normalised).double()
    states = draw(2, 9, 12)
    whole = layer(states)
    state, steps = layer.start(2), []
    for place in range(9):
        attended = layer(states[:, place : place + 1], state)
        state = attended.state
        steps.append(attended.context)
    assert torch.cat(steps, dim=1).allclose(whole.context, atol=1e-10)
    assert state.sums.allclose(whole.state.sums) and state.norms.allclose(whole.state.norms)
    first = layer(states[:, :5])
    rest = layer(states[1:, 5:], select_batch(first.state, torch.tensor([1])))
    assert rest.context.allclose(whole.context[1:, 5:], atol=1e-10)


def test_gradients():
    inputs = tuple(draw(1, 5, 3).requires_grad_() for _ in range(3))
    assert torch.autograd.gradcheck(lambda *arguments: linear_attention(*arguments, chunk=2).context, inputs)


def test_empty_inputs_give_no_nan():
    zeros = torch.zeros(1, 3, 2, requires_grad=True)
    attended = linear_attention(zeros, zeros, torch.ones(1, 3, 2), feature_map=torch.relu)
    attended.context.sum().backward()
    assert torch.equal(attended.context, torch.zeros(1, 3, 2))
    assert zeros.grad.isfinite().all()


def test_invalid_sizes_are_refused():
    with pytest.raises(ValueError, match="does not divide into 5 heads"):
        LinearAttention(12, 5)
    with pytest.raises(ValueError, match="chunk is 0"):
        linear_attention(*(torch.zeros(1, 2, 2) for _ in range(3)), chunk=0)
