"""The dot kernels against the formula, and the reasons against each path."""

from dataclasses import replace

import pytest
import torch

from regard import attend
from regard.attention import which_backend
from regard.attention.alignments import Ratio, Sparsemax
from regard.attention.masks import as_mask, causal, dilated, padding, predicate, prefix, window
from regard.attention.scores import Additive, Gaussian, Location
from regard.kernels import choose
from regard.kernels.dot import DotRequest, attend_plain, blocked
from regard.kernels.dot.sdpa import attend_sdpa, to_four_dimensions

MASKS = {
    "causal": causal,
    "window": lambda: window(5),
    "causal and window": lambda: causal() & window(5),
    "not causal": lambda: ~causal(),
    "prefix": lambda: causal() | prefix(4),
    "dilated": lambda: dilated(2, 3),
    "padding": lambda: causal() & padding(torch.tensor([0, 30])),
    "predicate": lambda: predicate(lambda i, j: (i * j) % 3 == 0),
    "nothing": lambda: prefix(0),
}


def make_request(mask, *, heads=4, group_size=2, queries=40, keys=50, bias=False, first_key=0, dtype=torch.float64):
    torch.manual_seed(0)
    tensors = {
        "queries": torch.randn(2, heads, queries, 6, dtype=dtype),
        "keys": torch.randn(2, heads // group_size, keys, 6, dtype=dtype),
        "values": torch.randn(2, heads // group_size, keys, 9, dtype=dtype),
        "key_bias": torch.randn(2, heads // group_size, keys, dtype=dtype),
    }
    return DotRequest(
        **{name: tensor.requires_grad_() for name, tensor in tensors.items()},
        scale=0.7,
        bias=torch.randn(heads, queries, keys, dtype=dtype) if bias else None,
        mask=mask,
        first_query=first_key + keys - queries,
        first_key=first_key,
        dropout=0.0,
        group_size=group_size,
    )


def check_equal_to_the_formula(kernel, request):
    inputs = (request.queries, request.keys, request.values, request.key_bias)
    actual, expected = kernel(request), attend_plain(request)
    assert actual.allclose(expected, atol=1e-10)
    upstream = torch.randn_like(expected)
    gradients = zip(
        torch.autograd.grad((actual * upstream).sum(), inputs, allow_unused=True, materialize_grads=True),
        torch.autograd.grad((expected * upstream).sum(), inputs),
        strict=True,
    )
    for ours, theirs in gradients:
        assert ours.allclose(theirs, atol=1e-9)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("group_size", [1, 2, 4])
@pytest.mark.parametrize("mask_name", MASKS)
def test_sdpa_equals_the_formula(mask_name, group_size, bias):
    check_equal_to_the_formula(attend_sdpa, make_request(MASKS[mask_name](), group_size=group_size, bias=bias))


@pytest.mark.parametrize("first_key", [0, 17])
@pytest.mark.parametrize("mask_name", MASKS)
def test_blocks_equal_the_formula(mask_name, first_key, monkeypatch):
    monkeypatch.setattr(blocked, "BLOCK", 7)
    check_equal_to_the_formula(
        blocked.attend_blocked, make_request(MASKS[mask_name](), bias=mask_name == "dilated", first_key=first_key)
    )


def test_blocks_compute_only_keys_within_the_window(monkeypatch):
    monkeypatch.setattr(blocked, "BLOCK", 10)
    request = make_request(window(3), queries=40, keys=40)
    block = blocked.slice_request(request, slice(10, 20))
    assert (block.first_key, block.keys.shape[-2]) == (7, 16)
    assert blocked.slice_request(make_request(causal(), queries=40, keys=40), slice(0, 10)).keys.shape[-2] == 10


def test_long_structured_masks_use_blocks_and_causal_masks_do_not():
    long = torch.zeros(1, 8192, 4)
    assert which_backend(long, long, long, mask=causal() & window(64)).backend == "blocked"
    assert which_backend(long, long, long, mask=causal()).backend == "sdpa"
    assert which_backend(long, long, long).backend == "sdpa"
    matrix = torch.ones(8192, 8192, dtype=torch.bool)
    choice = which_backend(long, long, long, mask=matrix)
    assert choice.backend == "sdpa" and "the mask holds a boolean tensor" in str(choice)


def test_keys_shared_by_a_batch_form_no_scores():
    queries, shared = torch.randn(3, 20, 8), torch.randn(30, 8)
    actual = attend(queries, shared, shared).context
    assert actual.allclose(attend(queries, shared.expand(3, 30, 8), shared.expand(3, 30, 8)).context, atol=1e-6)
    grown = to_four_dimensions(shared, (3,))
    assert grown.shape == (1, 3, 30, 8) and grown.stride(1) == 0, "SDPA forms the scores of keys that broadcast"


def test_padding_alone_does_not_use_blocks():
    states = torch.zeros(32, 2, 1024, 4)
    lengths = torch.full((32,), 900)
    assert which_backend(states, states, states, mask=padding(lengths)).backend == "sdpa"
    assert which_backend(states, states, states, mask=causal() & padding(lengths)).backend == "blocked"


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_a_key_bias_past_half_precision_stays_finite(dtype):
    request = make_request(None, group_size=1, dtype=torch.float32)
    low = {name: getattr(request, name).detach().to(dtype) for name in ("queries", "keys", "values")}
    bias = torch.zeros(2, 4, 50)
    bias[..., 3] = -2e5
    actual = attend_sdpa(replace(request, **low, key_bias=bias))
    assert actual.isfinite().all()


def test_every_reason_against_a_fused_path_is_reported():
    x = torch.randn(2, 3, 8)
    choice = which_backend(
        x, x, x, score=Additive(query_size=8, key_size=8, hidden_size=2), align=Sparsemax(), return_weights=True
    )
    assert choice.backend == "plain"
    for reason in ("the weights are needed", "Sparsemax is not Softmax"):
        assert reason in str(choice)
    assert "Ratio depends on the constant per query" in str(which_backend(x, x, x, score=Gaussian(), align=Ratio()))
    assert "FlexAttention has no backward on cpu" in str(which_backend(x, x, x, mask=window(1)))
    with pytest.warns(UserWarning, match="never attended to"):
        assert "more keys than Location" in str(which_backend(x, x, x, score=Location(query_size=8, max_length=2)))
    assert "nothing to attend to" in str(which_backend(x[:0], x[:0], x[:0]))


def test_a_mask_is_evaluated_at_its_position():
    request = make_request(as_mask(causal()), queries=1, keys=5, group_size=1)
    assert request.allowed() is None, "a decoder's step after all keys needs no mask"
    assert choose(request).backend == "sdpa"
