"""Gaussian attention as a dot product: multiplied out on a CPU, by features on CUDA, and as exact as formed scores."""

import pytest
import torch

from regard import attend
from regard.attention import which_backend
from regard.attention.alignments import Softmax
from regard.attention.backends import fused_request, lower
from regard.attention.masks import causal
from regard.attention.scores import Gaussian
from regard.kernels import attend_fused
from regard.kernels.gaussian.features import feature_refusals


def make_inputs(length, size, num_keys=None, *, value_size=None, dtype=torch.bfloat16):
    shapes = ((length, size), (num_keys or length, size), (num_keys or length, value_size or size))
    return [torch.randn(2, 3, *shape, device="cuda", dtype=dtype).requires_grad_() for shape in shapes]


def test_on_a_cpu_squares_are_expanded():
    queries, keys = torch.randn(2, 4, 5, 8), torch.randn(2, 4, 7, 8)
    actual = attend(queries, keys, keys, score=Gaussian(width=0.5)).context
    formed = attend(queries, keys, keys, score=Gaussian(width=0.5), return_weights=True).context
    assert actual.allclose(formed, atol=1e-6)
    assert which_backend(queries, keys, keys, score=Gaussian(width=0.5)).backend == "sdpa"


@pytest.mark.unchecked
@pytest.mark.parametrize("compiled", [False, True])
@pytest.mark.parametrize("group_size", [1, 2])
def test_heads_may_share_key_heads(group_size, compiled):
    torch._dynamo.reset()
    queries, keys = torch.randn(2, 4, 5, 8), torch.randn(2, 4 // group_size, 7, 8)
    score = Gaussian(width=0.5)

    def context_of(queries, keys):
        lowered = lower(score, Softmax(), queries, keys, group_size)
        return attend_fused(fused_request(lowered, keys, mask=causal(), dropout=0.0, group_size=group_size))

    run = torch.compile(context_of, fullgraph=True, backend="aot_eager") if compiled else context_of
    spread = keys.repeat_interleave(group_size, dim=1)
    formed = attend(queries, spread, spread, score=score, mask=causal(), return_weights=True)
    assert run(queries, keys).allclose(formed.context, atol=1e-6)


def test_a_bias_keeps_its_precision_under_autocast():
    """A bias in half precision would be rounded, with autocast and with half inputs."""
    queries, keys = 4 * torch.randn(2, 50, 16), 4 * torch.randn(2, 60, 16)
    formed = attend(queries, keys, keys, score=Gaussian(), return_weights=True).context
    errors = []
    for dtype in (torch.float32, torch.bfloat16):
        with torch.autocast("cpu", torch.bfloat16, enabled=dtype == torch.float32):
            tensors = [side.to(dtype) for side in (queries, keys, keys)]
            actual = attend(*tensors, score=Gaussian().to(dtype)).context
        errors.append((actual.float() - formed).norm() / formed.norm())
    assert errors[0] < 1.2 * errors[1]


@pytest.mark.cuda
def test_a_width_of_the_wrong_size_is_refused_on_a_gpu():
    with pytest.raises(ValueError, match="has 1 widths"):
        attend(*make_inputs(64, 64), score=Gaussian(width=[0.1]).to("cuda", torch.bfloat16))


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
def test_features_err_at_most_twice_as_much_as_formed_scores(length, num_keys, mask, size, value_size, dtype):
    tensors = make_inputs(length, size, num_keys, value_size=value_size, dtype=dtype)
    grad = torch.randn(2, 3, length, value_size, device="cuda", dtype=dtype)
    scores = [Gaussian(width=[size**-0.5] * size).to("cuda", kind) for kind in (dtype, torch.float64)]
    assert not any(feature_refusals(*tensors[:2], scores[0].width))
    results = []
    for use in ("fused", "formed", "truth"):
        score = scores[use == "truth"]
        inputs = [tensor.detach().to(score.width.dtype).requires_grad_() for tensor in tensors]
        context = attend(*inputs, score=score, mask=mask, return_weights=use != "fused").context
        results.append([context, *torch.autograd.grad(context, [*inputs, score.width], grad.to(context.dtype))])
    for name, fused, formed, truth in zip(("context", "q", "k", "v", "width"), *results, strict=True):
        errors = [((x.double() - truth).norm() / truth.norm().clamp_min(1e-2)).item() for x in (fused, formed)]
        assert errors[0] <= 2 * errors[1] + 2e-3, f"{name}: {errors[0]:.1e}, formed {errors[1]:.1e}"
