"""Test-time training by hand, against autograd, and the two theorems on attention."""

import pytest
import torch
from torch import nn

from regard import attend
from regard.attention.masks import causal
from regard.attention.scores import Gaussian, ScaledDot
from regard.contracts import select_batch, where_batch
from regard.layers.linear_attention import identity, linear_attention
from regard.layers.ttt import (
    TTT,
    BareLinear,
    GradientLearner,
    GradientState,
    NadarayaWatsonLearner,
    NormedLinear,
    descend,
)

KINDS = [BareLinear, NormedLinear]
HEADS, SIZE = 2, 4


def draw(*shape):
    return torch.randn(*shape, dtype=torch.float64)


def make_model(kind):
    model = kind(num_heads=HEADS, head_size=SIZE).double()
    for parameter in model.parameters():
        nn.init.normal_(parameter, mean=1.0, std=0.3)
    return model


def make_learner(kind, mini_batch):
    learner = GradientLearner(model=make_model(kind), num_heads=HEADS, head_size=SIZE, mini_batch=mini_batch).double()
    nn.init.normal_(learner.first, std=0.5)
    nn.init.normal_(learner.scale_shift, std=0.05)
    return learner


def examples(length, rows=2):
    queries, keys, values = (draw(rows, HEADS, length, SIZE) for _ in range(3))
    return queries, keys, values, 0.1 * torch.rand(rows, HEADS, length, dtype=torch.float64)


def predict(model, weights, inputs):
    """f of one token [B, H, d], written out."""
    if isinstance(model, BareLinear):
        return torch.einsum("bhi,bhio->bho", inputs, weights)
    linear = torch.einsum("bhi,bhio->bho", inputs, weights[:, :, :-1]) + weights[:, :, -1]
    normal = nn.functional.layer_norm(linear, (SIZE,))
    return inputs + model.gain.view(model.shape)[:, 0] * normal + model.shift.view(model.shape)[:, 0]


@pytest.mark.parametrize("kind", KINDS)
def test_the_dual_form_equals_gradient_descent_token_by_token(kind):
    """Weights are updated token by token, by autograd's gradient at the mini-batch's beginning."""
    learner = make_learner(kind, 3)
    queries, keys, values, rates = examples(8)
    weights = learner.first.detach().repeat(2, 1, 1, 1)
    scales, outputs = learner.scales(), []
    for t in range(8):
        if t % 3 == 0:
            first_weights, total = weights, torch.zeros_like(weights)
        at = first_weights.clone().requires_grad_()
        loss = (predict(learner.model, at, keys[:, :, t]) - values[:, :, t]).square().sum(dim=-1)
        total = total + torch.autograd.grad((rates[:, :, t] * loss).sum(), at)[0]
        weights = first_weights - scales[t % 3] * total
        outputs.append(predict(learner.model, weights, queries[:, :, t]))
    output = learner.update(queries, keys, values, rates, learner.start(2))
    assert output.outputs.allclose(torch.stack(outputs, dim=2), atol=1e-10)
    assert output.state.position.tolist() == [2, 2]
    assert (output.state.weights - scales[1] * output.state.gradient).allclose(weights, atol=1e-10)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("sizes", [[1] * 11, [4, 4, 3], [3, 0, 5, 3], [6, 5]])
def test_updates_in_pieces_equal_one_update(kind, sizes):
    learner = make_learner(kind, 4)
    inputs = examples(11)
    whole = learner.update(*inputs, learner.start(2))
    state, outputs, begin = learner.start(2), [], 0
    for size in sizes:
        output = learner.update(*(part[:, :, begin : begin + size] for part in inputs), state)
        state, begin = output.state, begin + size
        outputs.append(output.outputs)
    assert torch.cat(outputs, dim=2).allclose(whole.outputs, atol=1e-10, rtol=0)
    assert state.position.tolist() == whole.state.position.tolist() == [3, 3]
    assert state.weights.allclose(whole.state.weights) and state.gradient.allclose(whole.state.gradient)


@pytest.mark.parametrize("kind", KINDS)
def test_examples_may_be_at_different_positions_of_a_mini_batch(kind):
    """One example begins a new text while the other continues, as in training with a carried state."""
    learner = make_learner(kind, 4)
    old, new = examples(5, rows=1), examples(7)
    before = learner.update(*old, learner.start(1)).state
    mixed = where_batch(torch.tensor([True, False]), learner.start(2), select_batch(before, torch.tensor([0, 0])))
    output = learner.update(*new, mixed)
    for row, state in enumerate([learner.start(1), before]):
        alone = learner.update(*(part[row : row + 1] for part in new), state)
        assert output.outputs[row].allclose(alone.outputs[0], atol=1e-10, rtol=0)
        assert output.state.weights[row].allclose(alone.state.weights[0], atol=1e-10, rtol=0)
        assert output.state.gradient[row].allclose(alone.state.gradient[0], atol=1e-10, rtol=0)
    assert output.state.position.tolist() == [3, 0]


def test_theorem_1_batch_gradient_descent_of_a_linear_model_is_linear_attention():
    """W_0 = 0, rate 1/2, all gradients at W_0: W_t = sum_{s <= t} v_s k_s^T."""
    length = 9
    queries, keys, values, rates = examples(length)
    nothing = torch.zeros(2, HEADS, SIZE, SIZE, dtype=torch.float64)
    output = descend(
        queries,
        keys,
        values,
        torch.full_like(rates, 0.5),
        GradientState(weights=nothing, gradient=nothing, position=torch.zeros(2, dtype=torch.int64)),
        model=BareLinear(num_heads=HEADS, head_size=SIZE),
        scales=torch.ones(length, dtype=torch.float64),
    )
    attended = linear_attention(queries, keys, values, feature_map=identity, normalised=False, chunk=4)
    assert output.outputs.allclose(attended.context, atol=1e-10, rtol=0)
    assert (-output.state.gradient).allclose(attended.state.sums, atol=1e-10, rtol=0)


@pytest.mark.parametrize("score", [ScaledDot(), Gaussian(width=0.7).double()])
@pytest.mark.parametrize("sizes", [[7], [1] * 7, [4, 3]])
def test_theorem_2_a_nadaraya_watson_learner_is_self_attention(score, sizes):
    inputs = examples(7)
    expected = attend(*inputs[:3], score=score, mask=causal()).context
    learner = NadarayaWatsonLearner(score=score)
    state, outputs, begin = learner.start(2), [], 0
    for size in sizes:
        output = learner.update(*(part[:, :, begin : begin + size] for part in inputs), state)
        state, begin = output.state, begin + size
        outputs.append(output.outputs)
    assert torch.cat(outputs, dim=2).allclose(expected, atol=1e-10, rtol=0)


@pytest.mark.parametrize("make", [lambda: make_learner(NormedLinear, 4), NadarayaWatsonLearner])
def test_the_layer_accepts_any_learner(make):
    layer = TTT(hidden_size=8, num_heads=HEADS, learner=make()).double()
    states = draw(3, 6, 8)
    whole = layer(states, layer.start(3))
    alone = layer(states[1:2], layer.start(1))
    assert alone.outputs.allclose(whole.outputs[1:2], atol=1e-12)
    changed = states.clone()
    changed[:, 4] += 1
    after = layer(changed, layer.start(3)).outputs
    assert after[:, :4].allclose(whole.outputs[:, :4]) and not after[:, 4].allclose(whole.outputs[:, 4])


def test_gradients_reach_the_start_the_rate_and_the_norm():
    layer = TTT(hidden_size=8, num_heads=HEADS, learner=make_learner(NormedLinear, 4)).double()
    layer(draw(2, 6, 8), layer.start(2)).outputs.square().sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().sum() > 0, name


def test_the_error_on_a_repeated_example_decreases():
    """The error on a repeated example decreases."""
    learner = make_learner(BareLinear, 1)
    nn.init.zeros_(learner.scale_shift)
    key, value = draw(1, HEADS, 1, SIZE), draw(1, HEADS, 1, SIZE)
    key = key / key.norm(dim=-1, keepdim=True)
    keys, values = key.expand(-1, -1, 6, -1), value.expand(-1, -1, 6, -1)
    rates = torch.full((1, HEADS, 6), 0.25, dtype=torch.float64)
    errors = (learner.update(keys, keys, values, rates, learner.start(1)).outputs - values).norm(dim=-1)
    # a unit key halves the error: e' = e - 2 eta |k|^2 e
    assert (errors[..., 1:] / errors[..., :-1]).allclose(torch.tensor(0.5, dtype=torch.float64))


def test_invalid_sizes_are_refused():
    with pytest.raises(ValueError, match="mini_batch is 0"):
        make_learner(BareLinear, 0)
    with pytest.raises(ValueError, match="does not divide into 3 heads"):
        TTT(hidden_size=8, num_heads=3, learner=NadarayaWatsonLearner())


def test_runs_in_half_precision():
    layer = TTT(hidden_size=8, num_heads=HEADS, learner=make_learner(NormedLinear, 4)).bfloat16()
    states = torch.randn(2, 6, 8, dtype=torch.bfloat16)
    output = layer(states, layer.start(2)).outputs
    assert output.dtype == torch.bfloat16
    assert output.isfinite().all()
