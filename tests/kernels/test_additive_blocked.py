"""Additive attention in blocks of queries: the formula's outputs and gradients, compiled or not."""

import warnings
from dataclasses import replace

import pytest
import torch

from regard.kernels.additive import compiled_block
from regard.kernels.additive import cpu as blocked
from regard.kernels.additive.reference import FlatRequest

NAMES = ("context", "lse", "queries", "keys", "energy", "values")
SIDES = NAMES[2:]


def make(
    batch=2, num_queries=9, num_keys=11, hidden_size=16, value_size=5, *, scale=1.0, dtype=torch.float32, **fields
):
    torch.manual_seed(0)
    shapes = ((batch, num_queries, hidden_size), (batch, num_keys, hidden_size), (hidden_size,))
    queries, keys, energy, values = (torch.randn(shape).to(dtype) for shape in (*shapes, (batch, num_keys, value_size)))
    return FlatRequest(queries=scale * queries, keys=scale * keys, energy=energy, values=values, **fields)


def fused(request):
    torch.manual_seed(1)
    context, lse = blocked.forward(request)
    grad = torch.randn(context.shape, dtype=torch.float64).to(context.dtype)
    return context, lse, *blocked.backward(request, context, lse, grad)


def formula(request, *, dtype=torch.float64, keep=1.0):
    """The formula with every weight formed, differentiated by autograd; `keep` multiplies the weights."""
    torch.manual_seed(1)
    sides = [getattr(request, name).to(dtype) for name in SIDES]
    if request.key_mask is not None:
        for index in (1, 3):
            sides[index] = sides[index].masked_fill(~request.key_mask[..., None], 0)
    queries, keys, energy, values = (side.requires_grad_() for side in sides)
    scores = torch.tanh(queries[:, :, None] + keys[:, None]) @ energy
    scores = scores.masked_fill(~allowed(request), -torch.inf)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == -torch.inf, 0)[..., None])
    context = (weights * keep) @ values
    grad = torch.randn(context.shape, dtype=torch.float64).to(request.values.dtype).to(dtype)
    return context, lse, *torch.autograd.grad(context, (queries, keys, energy, values), grad)


def allowed(request):
    places = torch.arange(request.keys.shape[1])
    mask = torch.ones(*request.queries.shape[:2], len(places), dtype=torch.bool)
    if request.low is not None:
        mask = mask & (places >= request.low[..., None])
    if request.high is not None:
        mask = mask & (places < request.high[..., None])
    return mask if request.key_mask is None else mask & request.key_mask[:, None]


def errors(actual, truth):
    """Relative errors in the norm; infinities must be the same."""
    for ours, true in zip(actual, truth, strict=True):
        ends = true.isinf()
        assert ours.shape == true.shape and (ours.isinf() == ends).all()
        yield ((ours.double() - true)[~ends].norm() / true[~ends].norm().clamp_min(1e-30)).item()


def assert_exact(request):
    actual, truth = fused(request), formula(request)
    plain = errors(formula(request, dtype=torch.float32), truth)
    for name, error, theirs in zip(NAMES, errors(actual, truth), plain, strict=True):
        assert error <= min(max(8 * theirs, 5e-7), 1e-5), f"{name} errs by {error:.1e}, plain torch by {theirs:.1e}"


def causal(num_queries, num_keys):
    return (torch.arange(num_queries) + 1 + num_keys - num_queries).clamp(0, num_keys).int()[None]


MASKS = {
    "none": {},
    "causal": {"high": causal(9, 11)},
    "window": {"low": (causal(9, 11) - 3).clamp_min(0), "high": causal(9, 11)},
    "padding": {"key_mask": torch.arange(11) < torch.tensor([[11], [6]])},
    "one row for all": {"key_mask": (torch.arange(11) % 3 > 0)[None]},
    "nobody": {"key_mask": torch.stack([torch.zeros(11), torch.arange(11) % 4]).bool()},
    "empty queries": {"low": torch.full((2, 9), 4).int(), "high": torch.arange(18).view(2, 9).clamp(0, 11).int()},
    "all": {
        "low": (causal(9, 11) - 4).clamp_min(0),
        "high": causal(9, 11),
        "key_mask": torch.arange(11) < torch.tensor([[3], [9]]),
    },
}


@pytest.mark.parametrize("scale", [1e-3, 1, 5, 30])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 7, 3), (1, 65, 130), (3, 1, 20), (2, 5, 1)], ids=str)
def test_outputs_and_gradients_equal_the_formula(shape, scale):
    assert_exact(make(*shape, scale=scale))


@pytest.mark.parametrize("small_blocks", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask, small_blocks, monkeypatch):
    if small_blocks:
        force_small_blocks(monkeypatch)
    request = make(**MASKS[mask])
    assert_exact(request)
    nothing = ~allowed(request).any(-1)
    context, lse, to_queries, to_keys, _, to_values = fused(request)
    assert (lse[nothing] == -torch.inf).all()
    assert not context[nothing].any() and not to_queries[nothing].any()
    unread = ~allowed(request).any(1)
    assert not to_keys[unread].any() and not to_values[unread].any()


def force_small_blocks(monkeypatch):
    monkeypatch.setattr(blocked, "BLOCK_WEIGHTS", 11 * 4)
    monkeypatch.setattr(blocked, "FEWEST_QUERIES", 2)
    monkeypatch.setattr(compiled_block, "CACHE_ELEMENTS", 16 * 4 * 3)


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (0, 0)], ids=str)
def test_no_keys_give_zeros(lengths):
    actual = fused(make(2, *lengths))
    assert [each.shape for each in actual] == [each.shape for each in formula(make(2, *lengths))]
    assert (actual[1] == -torch.inf).all() and not any(each.any() for each in (actual[0], *actual[2:]))


def test_distant_queries_and_keys_are_centred():
    request = make(scale=0.5)
    request = replace(request, queries=request.queries + 15, keys=request.keys - 15)
    assert compiled_block.exponential_factors(request.queries, request.keys).scale is not None
    assert_exact(request)


@pytest.mark.parametrize(("scale", "kind"), [(1e-3, "small"), (2, "large"), (30, "plain")])
def test_every_factorization_is_used(scale, kind):
    queries, keys = (side * scale for side in (make().queries, make().keys))
    split = compiled_block.exponential_factors(queries, keys)
    assert (split.scale is None) == (kind == "plain")
    assert (split.shift == -1).all() == (kind == "large")
    torch.testing.assert_close(compiled_block.pair_tanh(split), torch.tanh(queries[:, :, None] + keys[:, None]))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_masked_keys_do_not_change_the_result(poison):
    clean = make(**MASKS["padding"])
    holes = ~clean.key_mask[..., None]
    dirty = replace(clean, keys=clean.keys.masked_fill(holes, poison), values=clean.values.masked_fill(holes, poison))
    for ours, theirs in zip(fused(dirty), fused(clean), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("side", SIDES)
def test_nan_in_allowed_keys_is_not_hidden(side):
    request = make()
    poisoned = getattr(request, side).clone()
    poisoned.view(-1)[0] = torch.nan
    context, lse, *grads = fused(replace(request, **{side: poisoned}))
    assert context[0, 0].isnan().any()
    assert side == "values" or lse[0, 0].isnan()
    assert all(grad.isnan().any() for grad in grads[:3])


def test_half_precision_is_summed_in_single():
    request = make(dtype=torch.bfloat16)
    actual, truth = fused(request), formula(request)
    assert [each.dtype for each in actual] == [torch.bfloat16, torch.float32] + [torch.bfloat16] * 4
    assert max(errors(actual, truth)) < 1e-2
    assert ((actual[1] - truth[1]).abs() < 1e-5).all()


def test_autocast_does_not_change_precision_inside():
    request = make()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        actual = fused(request)
    assert all(torch.equal(*pair) for pair in zip(actual, fused(request), strict=True))


@pytest.mark.parametrize("scale", [1e-3, 1, 30])
def test_double_precision_is_exact(scale):
    request = make(scale=scale, dtype=torch.float64, **MASKS["all"])
    actual = fused(request)
    assert all(each.dtype == torch.float64 for each in actual)
    # small scales cancel in the queries' gradient, 1 - tanh^2 being near 1
    assert max(errors(actual, formula(request))) < (1e-8 if scale < 1 else 1e-13)


@pytest.mark.parametrize("small_blocks", [False, True])
def test_dropout_drops_the_same_weights_in_backward(small_blocks, monkeypatch):
    if small_blocks:
        force_small_blocks(monkeypatch)
    request = make(**MASKS["window"], dropout=0.3, seed=torch.tensor([7]))
    everything = torch.eye(11).expand(2, 11, 11)
    dropped = blocked.forward(replace(request, values=everything))[0]
    weights = blocked.forward(replace(request, values=everything, dropout=0.0))[0]
    keep = torch.where(dropped > 0, 1 / 0.7, 0.0)
    assert 0 < (keep > 0).sum() < keep.numel()
    torch.testing.assert_close(dropped, weights * keep)
    assert max(errors(fused(request), formula(request, keep=keep.double()))) < 2e-6
    assert all(torch.equal(*pair) for pair in zip(fused(request), fused(request), strict=True))
    assert not torch.equal(fused(request)[0], fused(replace(request, seed=torch.tensor([8])))[0])


def test_dropout_keeps_the_mean():
    request = replace(make(8, 64, 64), values=torch.ones(8, 64, 1), dropout=0.25, seed=torch.tensor([3]))
    assert abs(blocked.forward(request)[0].mean() - 1) < 0.02
    assert not blocked.forward(replace(request, dropout=1.0))[0].any()


@pytest.mark.parametrize("kind", [torch._dynamo.exc.TorchDynamoException, PermissionError])
def test_a_failed_compilation_warns_once(monkeypatch, kind):
    def fail(*_):
        raise kind("no\ng++\nand a long trace")

    monkeypatch.setattr(compiled_block, "WORTH_COMPILING", 0)
    monkeypatch.setattr(compiled_block, "compile_errors", [])
    monkeypatch.setattr(
        compiled_block,
        "compiled_functions",
        lambda: compiled_block.BlockFunctions(scores=fail, gradients=fail, compiled=True),
    )
    with pytest.warns(UserWarning, match=r"install g\+\+.*torch.compile: no g\+\+$"):
        first = fused(make())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = fused(make())
    monkeypatch.setattr(compiled_block, "COMPILE", False)
    for each in zip(first, again, fused(make()), strict=True):
        assert torch.equal(*each[:2]) and torch.equal(*each[1:])


def test_small_problems_are_not_compiled(monkeypatch):
    monkeypatch.setattr(compiled_block, "compiled_functions", lambda: pytest.fail("compiled"))
    fused(make())


@pytest.mark.unchecked
@pytest.mark.parametrize(("scale", "mask"), [(1, "none"), (1e-3, "window"), (30, "all")])
def test_compiled_equals_eager(scale, mask, monkeypatch):
    request = make(scale=scale, **MASKS[mask], dropout=0.2, seed=torch.tensor([5]))
    eager = fused(request)
    monkeypatch.setattr(compiled_block, "WORTH_COMPILING", 0)
    compiled = fused(request)
    assert not compiled_block.compile_errors
    assert max(errors(compiled, eager)) < 2e-6


@pytest.mark.unchecked
def test_other_lengths_sizes_and_tiles_are_not_compiled_again(monkeypatch):
    monkeypatch.setattr(compiled_block, "WORTH_COMPILING", 0)
    fused(make(2, 16, 16, 16))
    monkeypatch.setattr(compiled_block, "CACHE_ELEMENTS", 100)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for shape in ((3, 21, 8, 10), (2, 30, 30, 30), (2, 5, 40, 7)):
            fused(make(*shape))
        fused(make(**MASKS["all"]))
    assert not compiled_block.compile_errors
