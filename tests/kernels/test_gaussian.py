"""Gaussian attention by its own kernel: served where it can be, and as exact as what dot kernels make of it."""

import pytest
import torch

from regard import attend
from regard.attention import which_backend
from regard.attention.masks import causal, padding
from regard.attention.scores import Gaussian
from regard.kernels import GAUSSIAN_PATHS, attend_fused
from regard.kernels.gaussian import GaussianRequest


def given(length, size, num_keys=None, *, value_size=None, dtype=torch.bfloat16):
    shapes = ((length, size), (num_keys or length, size), (num_keys or length, value_size or size))
    return [torch.randn(2, 3, *shape, device="cuda", dtype=dtype).requires_grad_() for shape in shapes]


def needs_hopper():
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("needs a Hopper GPU")


def path(tensors, **options):
    return which_backend(*tensors, score=Gaussian().to(tensors[0].device, tensors[0].dtype), **options).backend


def test_on_a_cpu_squares_are_multiplied_out():
    queries, keys = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8)
    found = attend(queries, keys, keys, score=Gaussian(width=0.5)).context
    formed = attend(queries, keys, keys, score=Gaussian(width=0.5), return_weights=True).context
    assert found.allclose(formed, atol=1e-6)
    assert which_backend(queries, keys, keys, score=Gaussian(width=0.5)).backend == "sdpa"


@pytest.mark.unchecked
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("group_size", [1, 2])
def test_without_a_kernel_of_its_own_a_read_goes_by_dot_products(group_size, compiled):
    torch._dynamo.reset()
    queries, keys = torch.randn(2, 4, 5, 8), torch.randn(2, 4 // group_size, 7, 8)

    def read(queries, keys):
        asked = {"queries": queries, "keys": keys, "values": keys, "width": torch.tensor(0.5)}
        return attend_fused(GaussianRequest(**asked, mask=causal(), first_query=2, group_size=group_size))

    run = torch.compile(read, fullgraph=True, backend="aot_eager") if compiled else read
    spread = keys.repeat_interleave(group_size, dim=1)
    formed = attend(queries, spread, spread, score=Gaussian(width=0.5), mask=causal(), return_weights=True)
    assert run(queries, keys).allclose(formed.context, atol=1e-6)


def test_a_bias_keeps_its_digits_under_autocast():
    """One number of half precision would round it, whoever makes the precision half."""
    queries, keys = 4 * torch.randn(2, 50, 16), 4 * torch.randn(2, 60, 16)
    formed = attend(queries, keys, keys, score=Gaussian(), return_weights=True).context
    errors = []
    for dtype in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
            tensors = [side.to(dtype) for side in (queries, keys, keys)]
            found = attend(*tensors, score=Gaussian().to(dtype)).context
        errors.append((found.float() - formed).norm() / formed.norm())
    assert errors[0] < 1.2 * errors[1]


@pytest.mark.cuda
def test_who_is_served():
    needs_hopper()
    tensors = given(64, 64)
    assert path(tensors) == path(tensors, mask=causal()) == path(given(64, 64, value_size=128)) == "gaussian"
    assert path(given(64, 64, 65), mask=causal()) == "sdpa"
    assert path(tensors, mask=padding(torch.tensor([64, 3], device="cuda"))) == "sdpa"
    assert path(tensors, dropout=0.1) == path(given(64, 48)) == path(given(64, 64, dtype=torch.float32)) == "sdpa"
    with torch.no_grad():
        assert path(tensors) == "sdpa"


@pytest.mark.cuda
def test_a_width_that_fits_nothing_is_refused_on_a_gpu_too():
    with pytest.raises(ValueError, match="has 1 widths"):
        attend(*given(64, 64), score=Gaussian(width=[0.1]).to("cuda", torch.bfloat16))


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("size", "value_size", "dtype"),
    [
        (32, 32, torch.bfloat16),
        (64, 64, torch.bfloat16),
        (128, 128, torch.bfloat16),
        (32, 128, torch.float16),
        (128, 64, torch.float16),
    ],
)
@pytest.mark.parametrize(
    ("length", "num_keys", "mask"),
    [(512, None, None), (333, 150, None), (1, 65, None), (256, None, causal()), (301, None, causal())],
)
def test_it_errs_no_more_than_dot_kernels(monkeypatch, length, num_keys, mask, size, value_size, dtype):
    needs_hopper()
    tensors = given(length, size, num_keys, value_size=value_size, dtype=dtype)
    assert path(tensors, mask=mask) == "gaussian"
    grad = torch.randn(2, 3, length, value_size, device="cuda", dtype=dtype)
    scores = [Gaussian(width=[size**-0.5] * size).to("cuda", kind) for kind in (dtype, torch.float64)]
    found = []
    for use in ("gaussian", "sdpa", "truth"):
        if use == "sdpa":
            monkeypatch.delitem(GAUSSIAN_PATHS, "gaussian")
        score = scores[use == "truth"]
        inputs = [one.detach().to(score.width.dtype).requires_grad_() for one in tensors]
        context = attend(*inputs, score=score, mask=mask, return_weights=use == "truth").context
        found.append([context, *torch.autograd.grad(context, [*inputs, score.width], grad.to(context.dtype))])
    for name, ours, theirs, true in zip(("context", "q", "k", "v", "width"), *found, strict=True):
        errors = [((one.double() - true).norm() / true.norm().clamp_min(1e-2)).item() for one in (ours, theirs)]
        assert errors[0] <= 1.5 * errors[1] + 2e-3, f"{name}: {errors[0]:.1e}, by dot kernels {errors[1]:.1e}"
