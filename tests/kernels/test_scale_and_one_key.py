"""Corners of dot attention: scales of 0 and below in every kernel, a bias beside any scale, queries with one key."""

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from regard import attend, which_backend
from regard.attention.masks import causal, padding, window
from regard.attention.scores import Cosine, Gaussian
from regard.contracts import Lowered
from regard.kernels.dot import DotRequest, attend_plain
from regard.kernels.dot.blocked import attend_blocked
from regard.kernels.dot.sdpa import attend_sdpa

MASKS = {"none": None, "causal": causal(), "window": causal() & window(2), "lengths": padding(torch.tensor([0, 3]))}
TOLERANCE = {torch.float64: 1e-10, torch.float32: 2e-5, torch.bfloat16: 0.1, torch.float16: 2e-2}
scales = st.one_of(st.sampled_from([0.0, -1.0, 1.0]), st.floats(-5.0, 5.0, width=32))


class Scaled:
    """scale q . k + bias of the key, as a user writes it."""

    def __init__(self, scale):
        self.scale = scale

    def prepare(self, keys):
        return keys

    def __call__(self, queries, keys):
        return self.scale * (queries @ keys.mT) + keys[..., :1].mT

    def lower(self, queries, keys):
        return Lowered(queries=queries, keys=keys, scale=self.scale, key_bias=keys[..., 0])


@given(
    scale=scales, mask=st.sampled_from(list(MASKS.values())), dtype=st.sampled_from(list(TOLERANCE)),
    make=st.sampled_from([lambda scale: Cosine(scale=scale), Scaled]), length=st.integers(1, 9),
)  # fmt: skip
def test_a_scale_of_any_sign_gives_the_formed_context(scale, mask, dtype, make, length):
    queries, keys, values = (torch.randn(2, length, 4, dtype=torch.float64).to(dtype) for _ in range(3))
    score, exact = make(scale), [side.double() for side in (queries, keys, values)]
    expected = attend(*exact, score=score, mask=mask, return_weights=True).context
    actual = attend(queries, keys, values, score=score, mask=mask).context
    torch.testing.assert_close(actual.double(), expected, atol=TOLERANCE[dtype], rtol=TOLERANCE[dtype])


@pytest.mark.parametrize("kernel", [attend_sdpa, attend_blocked, attend_plain])
@pytest.mark.parametrize("scale", [-3.0, -0.5, 0.0, 0.7])
@pytest.mark.parametrize("mask_name", ["causal", "window"])
def test_every_kernel_takes_any_scale_with_gradients(kernel, scale, mask_name):
    sides = [torch.randn(2, 6, 4, dtype=torch.float64, requires_grad=True) for _ in range(3)]
    key_bias = torch.randn(2, 6, dtype=torch.float64)
    request = DotRequest(
        queries=sides[0], keys=sides[1], values=sides[2], mask=MASKS[mask_name], scale=scale, key_bias=key_bias
    )
    allowed = request.allowed()
    scores = scale * (sides[0] @ sides[1].mT) + key_bias[:, None]
    expected = torch.softmax(scores.masked_fill(~allowed, -torch.inf), dim=-1) @ sides[2]
    actual = kernel(request)
    assert actual.allclose(expected, atol=1e-12)
    weights = torch.randn_like(expected)
    for ours, theirs in zip(
        *(torch.autograd.grad((c * weights).sum(), sides) for c in (actual, expected)), strict=True
    ):
        assert ours.allclose(theirs, atol=1e-11)


@pytest.mark.parametrize("scale", [1e-5, 1e-3, 0.3, 1.0, 70.0, 3e4])
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_key_bias_keeps_its_digits_beside_any_scale(scale, dtype):
    torch.manual_seed(0)
    queries, keys, values = (torch.randn(1, 20, 4).to(dtype) / max(scale, 1.0) ** 0.5 for _ in range(3))
    key_bias = 3 * torch.randn(1, 20)
    request = DotRequest(queries=queries, keys=keys, values=values, scale=scale, key_bias=key_bias)
    exact = torch.softmax(scale * (queries.double() @ keys.double().mT) + key_bias[:, None].double(), dim=-1)
    assert attend_sdpa(request).double().allclose(exact @ values.double(), atol=2 * torch.finfo(dtype).eps, rtol=0.02)


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_a_key_bias_in_half_precision_has_gradients(dtype):
    sides = [torch.randn(2, 5, 4, dtype=torch.float64).to(dtype).requires_grad_() for _ in range(3)]
    gradients = [
        torch.autograd.grad(attend(*sides, score=Scaled(0.5), return_weights=formed).context.sum(), sides)
        for formed in (True, False)
    ]
    for formed, fused in zip(*gradients, strict=True):
        assert fused.allclose(formed, atol=0.05)


ONE_KEY = {
    "one key": (1, None),
    "first query of a causal mask": (6, causal()),
    "a window of one key": (6, window(0)),
    "lengths of one": (6, padding(torch.tensor([1, 1]))),
    "explicit": (6, torch.eye(6, dtype=torch.bool)),
}


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64], ids=str)
@pytest.mark.parametrize("name", ONE_KEY)
def test_the_score_of_a_single_key_has_no_gradient(name, dtype):
    num_keys, mask = ONE_KEY[name]
    queries = torch.randn(2, 2, 6, 8, dtype=torch.float64).to(dtype).requires_grad_()
    keys, values = (torch.randn(2, 2, num_keys, 8, dtype=torch.float64).to(dtype) for _ in range(2))
    keys, values = keys.requires_grad_(), (values + 50).detach().requires_grad_()
    # the direction acts on the first query alone, which has one key under every mask
    direction = torch.zeros(6, 1, dtype=dtype).index_fill_(0, torch.tensor([0]), 1.0)
    context = attend(queries, keys, values, mask=mask).context
    query_grad, key_grad, value_grad = torch.autograd.grad(
        (context * torch.randn_like(context) * direction).sum(), (queries, keys, values)
    )
    assert (query_grad == 0).all() and (key_grad == 0).all() and (value_grad != 0).any()
    assert context[:, :, 0].allclose(values[:, :, 0])


@pytest.mark.parametrize("name", ["lengths of one", "explicit", "a window of one key"])
def test_the_bias_of_a_single_key_has_no_gradient(name):
    # in float64 the fused kernel computes these; the bias of a key is -1/2 |w k|^2
    score = Gaussian(width=0.7).double()
    queries, keys, values = (torch.randn(2, 6, 8, dtype=torch.float64) * 30 for _ in range(3))
    queries, keys = queries.requires_grad_(), keys.requires_grad_()
    mask = ONE_KEY[name][1]
    assert which_backend(queries, keys, values, score=score, mask=mask).backend == "sdpa"
    context = attend(queries, keys, values, score=score, mask=mask).context
    gradients = torch.autograd.grad(context.square().sum(), (queries, keys, score.width))
    assert all((gradient == 0).all() for gradient in gradients)
