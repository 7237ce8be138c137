"""Attention with a folded bias: served where it can be, and as exact as what cuDNN makes of the same features."""

import pytest
import torch

from regard import attend
from regard.attention import explain
from regard.attention.masks import causal
from regard.attention.scores import Gaussian
from regard.kernels import DOT_PATHS


def given(length, size, num_keys=None, dtype=torch.bfloat16):
    lengths = (length, num_keys or length, num_keys or length)
    return [torch.randn(2, 3, count, size, device="cuda", dtype=dtype).requires_grad_() for count in lengths]


def test_on_a_cpu_every_reason_is_told():
    told = str(explain(*(torch.randn(2, 5, 32) for _ in range(3)), score=Gaussian()))
    assert "not folded: no features hold a bias" in told and "Hopper GPU or newer, here is cpu" in told


@pytest.mark.cuda
def test_who_is_served():
    tensors, score = given(64, 64), Gaussian().to("cuda", torch.bfloat16)
    if torch.cuda.get_device_capability() < (9, 0):
        pytest.skip("needs a Hopper GPU")
    assert explain(*tensors, score=score).path == "folded"
    assert explain(*tensors, score=score, mask=causal()).path == "sdpa"
    assert explain(*tensors, score=score, dropout=0.1).path == "sdpa"
    assert explain(*(tensor.detach() for tensor in tensors), score=score.requires_grad_(False)).path == "sdpa"
    assert explain(*given(64, 48), score=Gaussian().to("cuda", torch.bfloat16)).path == "sdpa"


@pytest.mark.cuda
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
@pytest.mark.parametrize("size", [32, 64, 128])
@pytest.mark.parametrize(("length", "num_keys"), [(512, None), (333, 150), (1, 65)])
def test_it_errs_no_more_than_cudnn(monkeypatch, length, num_keys, size, dtype):
    tensors = given(length, size, num_keys, dtype)
    grad = torch.randn(2, 3, length, size, device="cuda", dtype=dtype)
    scores = [Gaussian(width=[size**-0.5] * size).to("cuda", kind) for kind in (dtype, torch.float64)]
    found = []
    for use in ("folded", "sdpa", "truth"):
        if use == "sdpa":
            monkeypatch.delitem(DOT_PATHS, "folded")
        score = scores[use == "truth"]
        inputs = [one.detach().to(score.width.dtype).requires_grad_() for one in tensors]
        context = attend(*inputs, score=score, return_weights=use == "truth").context
        found.append([context, *torch.autograd.grad(context, [*inputs, score.width], grad.to(context.dtype))])
    for name, ours, theirs, true in zip(("context", "q", "k", "v", "width"), *found, strict=True):
        errors = [((one.double() - true).norm() / true.norm().clamp_min(1e-2)).item() for one in (ours, theirs)]
        assert errors[0] <= 1.5 * errors[1] + 2e-3, f"{name}: {errors[0]:.1e}, by cuDNN {errors[1]:.1e}"
