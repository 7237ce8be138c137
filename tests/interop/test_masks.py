"""Masks, the causal hint and dropout: what is returned is what was used."""

import itertools

import pytest
import torch
from torch import nn

from regard.interop import MultiheadAttention
from regard.interop.multihead_masks import over_heads, restriction_of
from regard.kernels import attend_fused
from tests.interop.cases import EMBED, FLAGS, HEADS, PLAIN, make_case, make_masks, make_pair

INF = float("inf")


def test_mask_polarity_is_inverted():
    mask = torch.tensor([[True, False], [False, False]])
    turned = restriction_of([mask], extra_keys=0, dtype=torch.float32)
    assert turned.bias is None
    assert torch.equal(turned.mask.tensors()[0], ~mask)


def test_extra_keys_are_allowed():
    masks = [torch.ones(2, 3, dtype=torch.bool), torch.full((2, 3), -INF)]
    turned = restriction_of(masks, extra_keys=2, dtype=torch.float32)
    for allowed in turned.mask.tensors():
        assert allowed.tolist() == [[False] * 3 + [True] * 2] * 2
    assert (turned.bias == 0).all()


def test_finite_mask_terms_may_sum_to_minus_infinity():
    lowest = torch.full((1, 2), torch.finfo(torch.float32).min)
    turned = restriction_of([lowest, lowest], extra_keys=0, dtype=torch.float32)
    assert not turned.mask.tensors()[0].any()
    assert turned.bias.isfinite().all()


def test_a_mask_of_three_dimensions_has_batch_times_heads():
    mask = torch.arange(6)[:, None, None].expand(6, 4, 5)
    (spread,) = over_heads(mask, None, (3, 2))
    assert spread.shape == (3, 2, 4, 5)
    assert spread[:, :, 0, 0].tolist() == [[0, 1], [2, 3], [4, 5]]


@pytest.mark.parametrize("flags", FLAGS, ids=str)
@pytest.mark.parametrize(("attn_kind", "padding_kind"), [("none", "none"), ("bool-3d", "float"), ("float-2d", "bool")])
def test_dropped_weights_are_the_ones_used(flags, attn_kind, padding_kind):
    case = make_case("self", "batch-first", flags)
    ours = MultiheadAttention(EMBED, HEADS, dropout=0.5, dtype=torch.float64, **case.build).train()
    call = make_masks(case, attn_kind, padding_kind)
    output, weights = ours(case.query, case.key, case.value, average_attn_weights=False, **call)
    assert (weights == 0).any()
    assert (weights.sum(-1) - 1).abs().max() > 0.1
    *_, values = ours._heads(case.query, case.key, case.value)
    torch.testing.assert_close(ours.out_proj((weights @ values).transpose(1, 2).flatten(-2)), output)


@pytest.mark.parametrize("need_weights", [True, False])
def test_dropout_keeps_the_mean_and_stops_in_eval(need_weights):
    ours = MultiheadAttention(EMBED, HEADS, dropout=0.3, batch_first=True)
    states = torch.randn(1, 4, EMBED).expand(4000, 4, EMBED)
    dropped = ours(states, states, states, need_weights=need_weights)[0]
    assert not torch.equal(dropped[0], dropped[1])
    undropped = ours.eval()(states[:1], states[:1], states[:1], need_weights=need_weights)[0]
    torch.testing.assert_close(dropped.mean(0, keepdim=True), undropped, atol=0.05, rtol=0)


def test_dropping_everything_leaves_the_bias():
    ours = MultiheadAttention(EMBED, HEADS, dropout=1.0).train()
    states = torch.randn(3, 2, EMBED)
    for need_weights in (True, False):
        assert torch.equal(ours(states, states, states, need_weights=need_weights)[0], torch.zeros_like(states))


def test_a_learned_mask_gets_its_gradient():
    case = make_case("memory", "batch-first", PLAIN)
    theirs, ours = make_pair(case.build)
    mask = make_masks(case, "float-3d", "none")["attn_mask"].requires_grad_()
    for need_weights in (True, False):
        expected, actual = (
            torch.autograd.grad(
                module(case.query, case.key, case.value, attn_mask=mask, need_weights=need_weights)[0].square().sum(),
                mask,
            )[0]
            for module in (theirs, ours)
        )
        torch.testing.assert_close(actual, expected)
        assert (actual[mask == -INF] == 0).all()


def test_a_mask_of_another_precision_is_converted():
    _, ours = make_pair(PLAIN, torch.float32)
    states, mask = torch.randn(3, 2, EMBED), torch.randn(3, 3)
    for need_weights in (True, False):
        output, weights = ours(states, states, states, attn_mask=mask.double(), need_weights=need_weights)
        assert output.dtype == torch.float32
        assert weights is None or weights.dtype == torch.float32
        assert torch.equal(output, ours(states, states, states, attn_mask=mask, need_weights=need_weights)[0])


def wrong_hint():
    """A mask that is not causal, passed with is_causal: torch uses the hint on one path and the mask on the others."""
    return torch.tensor([[0, 0, 0], [1, 0, 1], [0, 1, 0]]).bool()


def test_is_causal_replaces_the_mask_where_it_does_in_torch():
    theirs, ours = make_pair(PLAIN)
    states = torch.randn(3, 2, EMBED, dtype=torch.float64)
    padding = torch.zeros(2, 3, dtype=torch.bool)
    for need_weights, key_padding_mask in itertools.product((True, False), (None, padding)):
        call = {"attn_mask": wrong_hint(), "is_causal": True, "need_weights": need_weights}
        expected, actual = (
            module(states, states, states, key_padding_mask=key_padding_mask, **call)[0] for module in (theirs, ours)
        )
        torch.testing.assert_close(actual, expected)


def test_is_causal_evaluates_no_mask(monkeypatch):
    requests = []

    def record(request):
        requests.append(request)
        return attend_fused(request)

    monkeypatch.setattr("regard.attention.prepared.attend_fused", record)
    _, ours = make_pair(PLAIN)
    states = torch.randn(3, 2, EMBED, dtype=torch.float64)
    ours(states, states, states, attn_mask=wrong_hint(), is_causal=True, need_weights=False)
    (request,) = requests
    assert request.is_plain_causal


@pytest.mark.parametrize("extra", ["add_bias_kv", "add_zero_attn"])
def test_extra_keys_are_allowed_with_is_causal(extra):
    _, ours = make_pair({**PLAIN, extra: True})
    states = torch.randn(3, 2, EMBED, dtype=torch.float64)
    call = {"attn_mask": nn.Transformer.generate_square_subsequent_mask(3, dtype=torch.float64), "is_causal": True}
    formed, weights = ours(states, states, states, **call)
    assert (weights[..., -1] > 0).all()
    torch.testing.assert_close(ours(states, states, states, need_weights=False, **call)[0], formed)
