"""Additive attention in blocks of queries: the formula's outputs and gradients, compiled or not."""

import warnings
from dataclasses import replace

import pytest
import torch

from regard.kernels.additive import cpu as blocked
from regard.kernels.additive import cpu as blocks
from regard.kernels.additive.reference import Rows

NAMES = ("context", "lse", "queries", "keys", "energy", "values")
SIDES = NAMES[2:]


def make(
    batch=2, num_queries=9, num_keys=11, hidden_size=16, value_size=5, *, scale=1.0, dtype=torch.float32, **fields
):
    torch.manual_seed(0)
    shapes = ((batch, num_queries, hidden_size), (batch, num_keys, hidden_size), (hidden_size,))
    queries, keys, energy, values = (torch.randn(shape).to(dtype) for shape in (*shapes, (batch, num_keys, value_size)))
    return Rows(queries=scale * queries, keys=scale * keys, energy=energy, values=values, **fields)


def fused(rows):
    torch.manual_seed(1)
    context, lse = blocked.forward(rows)
    grad = torch.randn(context.shape, dtype=torch.float64).to(context.dtype)
    return context, lse, *blocked.backward(rows, context, lse, grad)


def formula(rows, *, dtype=torch.float64, keep=1.0):
    """What autograd makes of the formula, every weight formed; `keep` multiplies the weights."""
    torch.manual_seed(1)
    sides = [getattr(rows, name).to(dtype) for name in SIDES]
    if rows.real is not None:
        for index in (1, 3):
            sides[index] = sides[index].masked_fill(~rows.real[..., None], 0)
    queries, keys, energy, values = (side.requires_grad_() for side in sides)
    scores = torch.tanh(queries[:, :, None] + keys[:, None]) @ energy
    scores = scores.masked_fill(~allowed(rows), -torch.inf)
    lse = scores.logsumexp(-1)
    weights = torch.exp(scores - lse.masked_fill(lse == -torch.inf, 0)[..., None])
    context = (weights * keep) @ values
    grad = torch.randn(context.shape, dtype=torch.float64).to(rows.values.dtype).to(dtype)
    return context, lse, *torch.autograd.grad(context, (queries, keys, energy, values), grad)


def allowed(rows):
    places = torch.arange(rows.keys.shape[1])
    found = torch.ones(*rows.queries.shape[:2], len(places), dtype=torch.bool)
    if rows.low is not None:
        found = found & (places >= rows.low[..., None])
    if rows.high is not None:
        found = found & (places < rows.high[..., None])
    return found if rows.real is None else found & rows.real[:, None]


def errors(found, truth):
    """Relative errors in the norm; infinities must be the same."""
    for ours, true in zip(found, truth, strict=True):
        ends = true.isinf()
        assert ours.shape == true.shape and (ours.isinf() == ends).all()
        yield ((ours.double() - true)[~ends].norm() / true[~ends].norm().clamp_min(1e-30)).item()


def assert_exact(rows):
    found, truth = fused(rows), formula(rows)
    plain = errors(formula(rows, dtype=torch.float32), truth)
    for name, error, theirs in zip(NAMES, errors(found, truth), plain, strict=True):
        assert error <= min(max(8 * theirs, 5e-7), 1e-5), f"{name} errs by {error:.1e}, plain torch by {theirs:.1e}"


def causal(num_queries, num_keys):
    return (torch.arange(num_queries) + 1 + num_keys - num_queries).clamp(0, num_keys).int()[None]


MASKS = {
    "none": {},
    "causal": {"high": causal(9, 11)},
    "window": {"low": (causal(9, 11) - 3).clamp_min(0), "high": causal(9, 11)},
    "padding": {"real": torch.arange(11) < torch.tensor([[11], [6]])},
    "one row for all": {"real": (torch.arange(11) % 3 > 0)[None]},
    "nobody": {"real": torch.stack([torch.zeros(11), torch.arange(11) % 4]).bool()},
    "empty queries": {"low": torch.full((2, 9), 4).int(), "high": torch.arange(18).view(2, 9).clamp(0, 11).int()},
    "all": {
        "low": (causal(9, 11) - 4).clamp_min(0),
        "high": causal(9, 11),
        "real": torch.arange(11) < torch.tensor([[3], [9]]),
    },
}


@pytest.mark.parametrize("scale", [1e-3, 1, 5, 30])
@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 7, 3), (1, 65, 130), (3, 1, 20), (2, 5, 1)], ids=str)
def test_outputs_and_gradients_are_the_formula_s(shape, scale):
    assert_exact(make(*shape, scale=scale))


@pytest.mark.parametrize("small_blocks", [False, True])
@pytest.mark.parametrize("mask", MASKS)
def test_masks(mask, small_blocks, monkeypatch):
    if small_blocks:
        force_small_blocks(monkeypatch)
    rows = make(**MASKS[mask])
    assert_exact(rows)
    nothing = ~allowed(rows).any(-1)
    context, lse, to_queries, to_keys, _, to_values = fused(rows)
    assert (lse[nothing] == -torch.inf).all()
    assert not context[nothing].any() and not to_queries[nothing].any()
    unread = ~allowed(rows).any(1)
    assert not to_keys[unread].any() and not to_values[unread].any()


def force_small_blocks(monkeypatch):
    monkeypatch.setattr(blocked, "PAIRS", 11 * 4)
    monkeypatch.setattr(blocked, "FEWEST", 2)
    monkeypatch.setattr(blocks, "CELLS", 16 * 4 * 3)


@pytest.mark.parametrize("lengths", [(0, 3), (3, 0), (0, 0)], ids=str)
def test_nothing_to_read_is_zeros(lengths):
    found = fused(make(2, *lengths))
    assert [each.shape for each in found] == [each.shape for each in formula(make(2, *lengths))]
    assert (found[1] == -torch.inf).all() and not any(each.any() for each in (found[0], *found[2:]))


def test_far_queries_and_keys_meet_in_the_middle():
    rows = make(scale=0.5)
    rows = replace(rows, queries=rows.queries + 15, keys=rows.keys - 15)
    assert blocks.factors(rows.queries, rows.keys).scale is not None
    assert_exact(rows)


@pytest.mark.parametrize(("scale", "kind"), [(1e-3, "small"), (2, "large"), (30, "plain")])
def test_each_way_to_split_is_taken(scale, kind):
    queries, keys = (side * scale for side in (make().queries, make().keys))
    split = blocks.factors(queries, keys)
    assert (split.scale is None) == (kind == "plain")
    assert (split.shift == -1).all() == (kind == "large")
    torch.testing.assert_close(blocks.compare(split), torch.tanh(queries[:, :, None] + keys[:, None]))


@pytest.mark.parametrize("poison", [torch.nan, torch.inf])
def test_what_nobody_may_read_does_not_matter(poison):
    clean = make(**MASKS["padding"])
    holes = ~clean.real[..., None]
    dirty = replace(clean, keys=clean.keys.masked_fill(holes, poison), values=clean.values.masked_fill(holes, poison))
    for ours, theirs in zip(fused(dirty), fused(clean), strict=True):
        assert torch.equal(ours, theirs)


@pytest.mark.parametrize("side", SIDES)
def test_nan_that_is_read_shows(side):
    rows = make()
    poisoned = getattr(rows, side).clone()
    poisoned.view(-1)[0] = torch.nan
    context, lse, *grads = fused(replace(rows, **{side: poisoned}))
    assert context[0, 0].isnan().any()
    assert side == "values" or lse[0, 0].isnan()
    assert all(grad.isnan().any() for grad in grads[:3])


def test_half_precision_is_summed_in_single():
    rows = make(dtype=torch.bfloat16)
    found, truth = fused(rows), formula(rows)
    assert [each.dtype for each in found] == [torch.bfloat16, torch.float32] + [torch.bfloat16] * 4
    assert max(errors(found, truth)) < 1e-2
    assert ((found[1] - truth[1]).abs() < 1e-5).all()


def test_autocast_does_not_reach_inside():
    rows = make()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        found = fused(rows)
    assert all(torch.equal(*pair) for pair in zip(found, fused(rows), strict=True))


@pytest.mark.parametrize("scale", [1e-3, 1, 30])
def test_double_precision_is_exact(scale):
    rows = make(scale=scale, dtype=torch.float64, **MASKS["all"])
    found = fused(rows)
    assert all(each.dtype == torch.float64 for each in found)
    # small scales cancel in the queries' gradient, 1 - tanh^2 being near 1
    assert max(errors(found, formula(rows))) < (1e-8 if scale < 1 else 1e-13)


@pytest.mark.parametrize("small_blocks", [False, True])
def test_dropout_drops_the_same_weights_in_backward(small_blocks, monkeypatch):
    if small_blocks:
        force_small_blocks(monkeypatch)
    rows = make(**MASKS["window"], dropout=0.3, seed=torch.tensor([7]))
    everything = torch.eye(11).expand(2, 11, 11)
    dropped = blocked.forward(replace(rows, values=everything))[0]
    weights = blocked.forward(replace(rows, values=everything, dropout=0.0))[0]
    keep = torch.where(dropped > 0, 1 / 0.7, 0.0)
    assert 0 < (keep > 0).sum() < keep.numel()
    torch.testing.assert_close(dropped, weights * keep)
    assert max(errors(fused(rows), formula(rows, keep=keep.double()))) < 2e-6
    assert all(torch.equal(*pair) for pair in zip(fused(rows), fused(rows), strict=True))
    assert not torch.equal(fused(rows)[0], fused(replace(rows, seed=torch.tensor([8])))[0])


def test_dropout_keeps_the_mean():
    rows = replace(make(8, 64, 64), values=torch.ones(8, 64, 1), dropout=0.25, seed=torch.tensor([3]))
    assert abs(blocked.forward(rows)[0].mean() - 1) < 0.02
    assert not blocked.forward(replace(rows, dropout=1.0))[0].any()


@pytest.mark.parametrize("kind", [torch._dynamo.exc.TorchDynamoException, PermissionError])
def test_what_cannot_be_compiled_is_said_once(monkeypatch, kind):
    def fail(*_):
        raise kind("no\ng++\nand a long trace")

    monkeypatch.setattr(blocks, "WORTH_COMPILING", 0)
    monkeypatch.setattr(blocks, "cannot_compile", [])
    monkeypatch.setattr(blocks, "compiled_steps", lambda: blocks.Steps(scores=fail, slopes=fail, compiled=True))
    with pytest.warns(UserWarning, match=r"install g\+\+.*said: no g\+\+$"):
        first = fused(make())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = fused(make())
    monkeypatch.setattr(blocks, "COMPILE", False)
    for each in zip(first, again, fused(make()), strict=True):
        assert torch.equal(*each[:2]) and torch.equal(*each[1:])


def test_small_problems_are_not_compiled(monkeypatch):
    monkeypatch.setattr(blocks, "compiled_steps", lambda: pytest.fail("compiled"))
    fused(make())


@pytest.mark.unchecked
@pytest.mark.parametrize(("scale", "mask"), [(1, "none"), (1e-3, "window"), (30, "all")])
def test_compiled_equals_eager(scale, mask, monkeypatch):
    rows = make(scale=scale, **MASKS[mask], dropout=0.2, seed=torch.tensor([5]))
    eager = fused(rows)
    monkeypatch.setattr(blocks, "WORTH_COMPILING", 0)
    compiled = fused(rows)
    assert not blocks.cannot_compile
    assert max(errors(compiled, eager)) < 2e-6


@pytest.mark.unchecked
def test_other_lengths_sizes_and_tiles_are_not_compiled_again(monkeypatch):
    monkeypatch.setattr(blocks, "WORTH_COMPILING", 0)
    fused(make(2, 16, 16, 16))
    monkeypatch.setattr(blocks, "CELLS", 100)
    with torch._dynamo.config.patch(error_on_recompile=True):
        for shape in ((3, 21, 8, 10), (2, 30, 30, 30), (2, 5, 40, 7)):
            fused(make(*shape))
        fused(make(**MASKS["all"]))
    assert not blocks.cannot_compile
