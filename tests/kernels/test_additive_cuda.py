"""Additive attention on CUDA: sine and exact path against float64, and as `attend` uses them."""

import random
from dataclasses import replace

import pytest
import torch

from regard import attend
from regard.attention import which_backend
from regard.attention.masks import causal, padding, window
from regard.attention.scores import Additive
from regard.kernels import triton_support as tiles
from regard.kernels.additive import AdditiveRequest
from regard.kernels.additive import chunked as chunks
from regard.kernels.additive import operator as fused
from tests.kernels.additive_cases import error, errors, formula, make, run_path

pytestmark = [pytest.mark.cuda, pytest.mark.unchecked]

if tiles.INSTALLED:
    from regard.kernels.additive.exact import ExactAttention
    from regard.kernels.additive.sine import SineAttention

SHAPES = [(1, 1, 1, 1, 1), (2, 17, 33, 32, 16), (1, 65, 130, 37, 20), (3, 128, 257, 128, 64), (2, 100, 100, 1024, 256)]
MASK_NAMES = [None, "causal", "padded window", "everything", "shared"]


@pytest.fixture(autouse=True)
def _poisoned():
    torch.use_deterministic_algorithms(True, warn_only=True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.mark.parametrize("mask", MASK_NAMES)
@pytest.mark.parametrize("shape", SHAPES)
def test_the_exact_path_has_float32_precision(shape, mask):
    # kernels are compiled once for all sizes of inputs
    for scale in (1e-3, 1.0, 30.0):
        request = make(shape, scale=scale, mask=mask, device="cuda")
        truth = formula(request)
        plain = errors(formula(request, torch.float32), truth)
        for name, off in errors(run_path(ExactAttention, request), truth).items():
            assert off < 1e-5, (name, scale)
            assert off < 8 * plain[name] + 1e-6, (name, scale)


@pytest.mark.parametrize("mask", MASK_NAMES)
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float16])
def test_the_sine_path_has_half_precision(shape, mask, dtype):
    for scale in (1e-3, 0.1, 0.5, 1.0, 3.0, 30.0):
        request = make(shape, scale=scale, mask=mask, dtype=dtype, device="cuda")
        truth = formula(request)
        plain = errors(formula(request, torch.bfloat16), truth)
        for name, off in errors(run_path(SineAttention, request), truth).items():
            assert off < 1.5 * plain[name] + 1e-4, (name, scale)


@pytest.mark.parametrize("seed", range(40))
def test_any_shape_range_and_mask(seed):
    chance = random.Random(seed)
    shape = tuple(chance.randint(1, most) for most in (3, 90, 150, 200, 70))
    options = {"scale": 10 ** chance.uniform(-3, 1.6), "shift": chance.choice([0.0, 0.0, 3.0, -8.0])}
    mask = chance.choice(MASK_NAMES)
    for path, dtype in ((SineAttention, torch.bfloat16), (ExactAttention, torch.float32)):
        request = make(shape, **options, mask=mask, dtype=dtype, device="cuda")
        truth = formula(request)
        plain = errors(formula(request, dtype), truth)
        allowed = (1.5, 1e-4) if dtype == torch.bfloat16 else (8, 1e-6)
        for name, off in errors(run_path(path, request), truth).items():
            assert off <= allowed[0] * plain[name] + allowed[1], (name, shape, options, mask)


@pytest.mark.parametrize("mask", MASK_NAMES)
def test_chunks_equal_one_pass(mask, monkeypatch):
    request = make((3, 300, 300, 64, 32), mask=mask, dtype=torch.bfloat16, device="cuda")
    whole = run_path(SineAttention, request)
    for name, size in (("CHUNK_SCORES", 2**12), ("MAX_QUERIES", 64), ("MAX_KEYS", 48)):
        monkeypatch.setattr(chunks, name, size)
    for name, off in errors(run_path(SineAttention, request), whole).items():
        assert off < 1e-2, name


def test_distant_queries_and_keys():
    request = make(shift=3.0, dtype=torch.bfloat16, device="cuda")
    truth = formula(request)
    plain = errors(formula(request, torch.bfloat16), truth)
    for name, off in errors(run_path(SineAttention, request), truth).items():
        assert off < 1.5 * plain[name] + 1e-4, name


def test_results_are_deterministic():
    for kind, dtype in ((SineAttention, torch.bfloat16), (ExactAttention, torch.float32)):
        request = make((4, 500, 500, 128, 64), dtype=dtype, device="cuda")
        for one, other in zip(run_path(kind, request), run_path(kind, request), strict=True):
            assert torch.equal(one, other)


def test_nan_is_not_hidden():
    for kind in (SineAttention, ExactAttention):
        request = make(dtype=torch.bfloat16, device="cuda")
        request.keys[1, 3, 5] = torch.nan
        context, lse = kind(request).forward()
        assert context[0].isfinite().all()
        assert lse[1].isnan().all()
        assert context[1].isnan().all()


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
def test_dropout_keeps_the_mean_and_its_gradient_uses_the_same_mask(dtype):
    kind = SineAttention if dtype == torch.bfloat16 else ExactAttention
    request = make((2, 256, 256, 32, 16), dtype=dtype, device="cuda")
    request = replace(
        request, dropout=0.25, seed=torch.tensor([3], device="cuda"), values=torch.ones_like(request.values)
    )
    context, lse = kind(request).forward()
    assert abs(float(context.float().mean()) - 1.0) < 0.02
    grads = kind(request).backward(context, lse, torch.ones_like(context))
    assert float((grads[3][..., 0].float().sum(1) - context[..., 0].float().sum(1)).abs().max()) < 2.0


@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("compiled", [False, True])
def test_attend_uses_the_kernel_and_equals_formed_weights(dtype, compiled):
    score = Additive(query_size=64, key_size=48, hidden_size=64).cuda().to(dtype)
    shapes = ((2, 3, 500, 64), (2, 3, 400, 48), (2, 3, 400, 32))
    lengths = torch.tensor([400, 150], device="cuda")
    mask = window(100) & padding(lengths) & causal()
    tensors = [torch.randn(shape, device="cuda", dtype=dtype, requires_grad=True) for shape in shapes]
    assert which_backend(*tensors, score=score, mask=mask).backend == ("sine" if dtype == torch.bfloat16 else "exact")

    def run(*tensors_of_run, return_weights=False):
        return attend(*tensors_of_run, score=score, mask=mask, return_weights=return_weights).context

    fused = torch.compile(run, fullgraph=True) if compiled else run
    grad = torch.randn(2, 3, 500, 32, device="cuda", dtype=dtype)
    context = fused(*tensors)
    actual = (context, *torch.autograd.grad(context, (*tensors, *score.parameters()), grad))
    wide = [tensor.detach().double().requires_grad_() for tensor in tensors]
    score.double()
    context = run(*wide, return_weights=True)
    truth = (context, *torch.autograd.grad(context, (*wide, *score.parameters()), grad.double()))
    off = [error(*pair) for pair in zip(actual, truth, strict=True)]
    assert max(off) < (0.02 if dtype == torch.bfloat16 else 1e-5), off


def test_autocast_does_not_change_precision_inside():
    # so wide that some units saturate
    request = make((2, 191, 191, 64, 64), scale=2.0, dtype=torch.bfloat16, device="cuda")
    actual = []
    for enabled in (False, True):
        inputs = {
            name: getattr(request, name).clone().requires_grad_() for name in ("queries", "keys", "energy", "values")
        }
        with torch.autocast("cuda", dtype=torch.bfloat16, enabled=enabled):
            context, lse = fused.attend_with_lse(AdditiveRequest(**inputs), "sine")
        actual.append((context, lse, *torch.autograd.grad(context.float().square().sum(), list(inputs.values()))))
    for one, other in zip(*actual, strict=True):
        assert torch.equal(one, other)


def test_autocast_uses_tensor_cores():
    score = Additive(query_size=64, key_size=64, hidden_size=64).cuda()
    states = torch.randn(4, 400, 64, device="cuda", requires_grad=True)
    with torch.autocast("cuda", dtype=torch.bfloat16):
        context = attend(states, states, states, score=score).context
    assert context.dtype == torch.bfloat16
    context.float().sum().backward()
    plain = attend(states, states, states, score=score, return_weights=True).context
    assert float((context - plain).norm() / plain.norm()) < 0.02
