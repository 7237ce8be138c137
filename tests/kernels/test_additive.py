"""Additive attention as `attend` uses it: which path, the same numbers as formed weights, every mask, every wrapper."""

import numpy as np
import pytest
import torch

from regard import attend
from regard.attention import which_backend
from regard.attention.masks import causal, dilated, padding, prefix, window
from regard.attention.scores import Additive, Concat
from regard.kernels.additive import AdditiveRequest
from regard.kernels.additive import operator as fused
from regard.kernels.additive import unit_ranges as series
from regard.kernels.additive.reference import additive_scores, flatten_request

LENGTHS = torch.tensor([40, 0, 25])
MASKS = {
    "none": None,
    "causal": causal(),
    "padding": padding(LENGTHS),
    "window": window(3),
    "read both ways, then on": causal() | prefix(12),
    "all": causal() & window(5) & padding(LENGTHS) & prefix(30),
    "tensor": torch.rand(3, 1, 40) < 0.5,
    "a tensor for each query": torch.rand(3, 30, 40) < 0.5,
    "one for all rows": torch.rand(30, 40) < 0.5,
    "neither interval nor the same for all": (causal() | window(3)) & dilated(30, 3) & padding(LENGTHS),
    "not": ~window(2),
}


@pytest.fixture(autouse=True)
def _small_reads_too(monkeypatch):
    monkeypatch.setitem(fused.WORTH_IT, "cpu", 0)


def make_inputs(kind=Additive, dtype=torch.float32):
    score = kind(query_size=6, key_size=5, hidden_size=16).to(dtype)
    shapes = ((3, 30, 6), (3, 40, 5), (3, 40, 7))
    return score, [torch.randn(shape, dtype=dtype, requires_grad=True) for shape in shapes]


@pytest.mark.parametrize("kind", [Additive, Concat])
@pytest.mark.parametrize("name", MASKS)
def test_fused_equals_formed(name, kind):
    score, tensors = make_inputs(kind, torch.float64)
    assert which_backend(*tensors, score=score, mask=MASKS[name]).backend == "blocked"
    results = []
    for return_weights in (False, True):
        context = attend(*tensors, score=score, mask=MASKS[name], return_weights=return_weights).context
        gradients = torch.autograd.grad(context.square().sum(), (*tensors, *score.parameters()))
        results.append((context, *gradients))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-10, rtol=1e-8)


def test_leading_dimensions_broadcast():
    score, _ = make_inputs()
    queries, keys, values = torch.randn(2, 3, 30, 6), torch.randn(3, 40, 5), torch.randn(2, 1, 40, 7)
    fast = attend(queries, keys, values, score=score).context
    formed = attend(queries, keys, values, score=score, return_weights=True).context
    torch.testing.assert_close(fast, formed)


def test_small_inputs_are_formed(monkeypatch):
    score, tensors = make_inputs()
    assert "with fewer than 8" in str(which_backend(tensors[0][:, :1], *tensors[1:], score=score))
    monkeypatch.setitem(fused.WORTH_IT, "cpu", 10**6)
    assert "the input is small: below 1,000,000 triples" in str(which_backend(*tensors, score=score))


def test_the_log_sum_exp_gives_the_weights_of_chosen_queries():
    score, (queries, keys, values) = make_inputs()
    attention_request = AdditiveRequest(
        queries=score.query_proj(queries), keys=score.prepare(keys), energy=score.energy, values=values, mask=window(9)
    )
    context, lse = fused.attend_with_lse(attention_request, "blocked")
    chosen = [0, 17]
    scores = additive_scores(attention_request.queries[:, chosen], attention_request.keys, attention_request.energy)
    weights = (scores - lse[:, chosen, None]).exp().where(attention_request.allowed()[..., chosen, :], 0.0)
    torch.testing.assert_close(weights.sum(-1), torch.ones(3, 2))
    torch.testing.assert_close(weights @ values, context[:, chosen])


def test_dropout_is_drawn_from_torch():
    score, tensors = make_inputs()
    torch.manual_seed(3)
    first = attend(*tensors, score=score, dropout=0.5).context
    torch.manual_seed(3)
    again = attend(*tensors, score=score, dropout=0.5).context
    assert torch.equal(first, again)
    assert not torch.equal(first, attend(*tensors, score=score, dropout=0.5).context)


def test_autocast():
    score, tensors = make_inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        fast = attend(*tensors, score=score).context
        formed = attend(*tensors, score=score, return_weights=True).context
    assert fast.dtype == formed.dtype == torch.bfloat16
    torch.testing.assert_close(fast, formed, atol=0.03, rtol=0.03)


def test_autocast_does_not_change_precision_inside():
    shapes = {"queries": (3, 30, 16), "keys": (3, 40, 16), "energy": (16,), "values": (3, 40, 7)}
    inputs = {name: torch.randn(shape).bfloat16().requires_grad_() for name, shape in shapes.items()}
    results = []
    for enabled in (False, True):
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=enabled):
            context, lse = fused.attend_with_lse(AdditiveRequest(**inputs), "blocked")
            results.append((context, lse, *torch.autograd.grad(context.sum(), list(inputs.values()))))
    for one, other in zip(*results, strict=True):
        assert torch.equal(one, other)


@pytest.mark.unchecked
def test_torch_func_uses_formed_scores():
    score, tensors = make_inputs()
    attention_request = torch.func.vmap(lambda q, k, v: attend(q, k, v, score=score).context)
    torch.testing.assert_close(attention_request(*tensors), attend(*tensors, score=score, return_weights=True).context)


@pytest.mark.unchecked
def test_vmap_over_lengths_uses_formed_scores():
    score, (queries, keys, values) = make_inputs()
    lengths = torch.tensor([3, 40])

    def attend_to(length):
        return attend(queries[0], keys[0], values[0], score=score, mask=padding(length)).context

    results = torch.func.vmap(attend_to)(lengths)
    torch.testing.assert_close(results[0], attend_to(lengths[0]))


def test_twice_differentiable():
    score, tensors = make_inputs(dtype=torch.float64)
    results = []
    for return_weights in (False, True):
        context = attend(*tensors, score=score, mask=MASKS["all"], return_weights=return_weights).context
        first = torch.autograd.grad(context.square().sum(), tensors, create_graph=True)
        results.append(torch.autograd.grad(sum(each.square().sum() for each in first), tensors))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-7)


def test_a_gradient_penalty_reaches_every_parameter():
    score, tensors = make_inputs(dtype=torch.float64)
    results = []
    for return_weights in (False, True):
        context = attend(*tensors, score=score, return_weights=return_weights).context
        (first,) = torch.autograd.grad(context.sum(), tensors[0], create_graph=True)
        results.append(torch.autograd.grad(first.square().sum(), (*tensors, *score.parameters())))
    for one, other in zip(*results, strict=True):
        torch.testing.assert_close(one, other, atol=1e-9, rtol=1e-7)


@pytest.mark.unchecked
def test_forward_mode_uses_formed_scores():
    score, (queries, keys, values) = make_inputs(dtype=torch.float64)
    with torch.autograd.forward_ad.dual_level():
        dual = torch.autograd.forward_ad.make_dual(queries.detach(), torch.ones_like(queries))
        context = attend(dual, keys, values, score=score).context
        assert torch.autograd.forward_ad.unpack_dual(context).tangent is not None


def test_large_values_and_the_widest_window():
    score, (queries, keys, values) = make_inputs()
    large = torch.full_like(values, 1e37)
    torch.testing.assert_close(attend(queries, keys, large, score=score).context, torch.full((3, 30, 7), 1e37))
    widest = attend(queries, keys, values, score=score, mask=window(2**63 - 1)).context
    torch.testing.assert_close(widest, attend(queries, keys, values, score=score).context)


def test_another_default_device():
    score, tensors = make_inputs()
    truth = attend(*tensors, score=score, mask=MASKS["all"]).context
    with torch.device("meta"):
        results = attend(*tensors, score=score, mask=MASKS["all"]).context
    torch.testing.assert_close(results, truth)


def test_float64_stays_so_under_autocast():
    score, tensors = make_inputs(dtype=torch.float64)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert attend(*tensors, score=score).context.dtype == torch.float64


@pytest.mark.unchecked
@pytest.mark.parametrize("least", [0, 40_000])
def test_compiled_at_several_lengths(monkeypatch, least):
    monkeypatch.setitem(fused.WORTH_IT, "cpu", least)
    score, _ = make_inputs()
    run = torch.compile(lambda *inputs: attend(*inputs, score=score).context, fullgraph=True, backend="aot_eager")
    for length in (20, 25, 30, 60):
        inputs = [torch.randn(3, length, size) for size in (6, 5, 7)]
        torch.testing.assert_close(run(*inputs), attend(*inputs, score=score, return_weights=True).context)


@pytest.mark.unchecked
def test_the_operator_passes_opcheck():
    score, (queries, keys, values) = make_inputs(dtype=torch.float64)
    attention_request = AdditiveRequest(
        queries=score.query_proj(queries).detach().requires_grad_(),
        keys=score.prepare(keys).detach().requires_grad_(),
        energy=score.energy,
        values=values,
        mask=MASKS["all"],
    )
    request = flatten_request(attention_request)
    torch.library.opcheck(fused._attend, (*request.tensors(), 0.0, "blocked"))


@pytest.mark.unchecked
def test_compiled_in_one_graph():
    score, tensors = make_inputs()
    run = torch.compile(
        lambda *inputs: attend(*inputs, score=score, mask=causal()).context, fullgraph=True, backend="aot_eager"
    )
    torch.testing.assert_close(run(*tensors), attend(*tensors, score=score, mask=causal()).context)
    run(*tensors).sum().backward()
    assert tensors[0].grad is not None


@pytest.mark.parametrize(("width", "most"), [(0.01, 1e-9), (1.0, 1e-8), (4.0, 1e-4), (8.0, 4e-3), (11.0, 1e-2)])
def test_the_series_is_tanh(width, most):
    frequency = np.pi / (2 * series.quarter_period(width))
    results = series.fit_series(width, frequency)
    places = np.linspace(-width, width, 1001)
    sines = np.sin(np.outer(places, (2 * np.arange(1, series.TERMS + 1) - 1) * frequency))
    assert np.abs(sines @ results - np.tanh(places)).max() < most
    # for usual arguments, half of the range, it is more accurate
    inner = np.abs(places) < width / 2
    assert np.abs(sines @ results - np.tanh(places))[inner].max() < most / 2
    assert np.abs(results).sum() < 3


def test_torch_func_differentiates_scores_of_several_blocks(monkeypatch):
    monkeypatch.setattr("regard.kernels.autograd.CELLS", 64)
    score = Additive(query_size=4, key_size=4, hidden_size=3).double()
    queries, keys = torch.randn(5, 4, dtype=torch.float64), torch.randn(7, 4, dtype=torch.float64)
    gradient = torch.func.grad(lambda each: score(each, score.prepare(keys)).square().sum())(queries)
    variable = queries.clone().requires_grad_()
    (expected,) = torch.autograd.grad(score(variable, score.prepare(keys)).square().sum(), variable)
    torch.testing.assert_close(gradient, expected)
