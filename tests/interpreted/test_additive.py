"""The Triton kernels of additive attention on the CPU, by Triton's interpreter: `make triton` runs them."""

from dataclasses import replace

import pytest
import torch

from regard.kernels import triton_support as tiles
from regard.kernels.additive import chunked as chunks
from tests.kernels.additive_cases import errors, formula, make, run_path

if not tiles.INSTALLED or not tiles.INTERPRETED:
    pytest.skip("needs Triton and TRITON_INTERPRET=1", allow_module_level=True)

from regard.kernels.additive.exact import ExactAttention
from regard.kernels.additive.sine import SineAttention

pytestmark = [
    pytest.mark.unchecked,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # numpy's warnings of logarithms of 0
]
CASES = {
    "one of each": {"shape": (1, 1, 1, 1, 1)},
    "odd": {"shape": (1, 5, 19, 13, 20)},
    "causal": {"shape": (1, 9, 9, 8, 16), "mask": "causal"},
    "window": {"shape": (1, 9, 11, 8, 16), "mask": "window"},
    "padded": {"shape": (3, 7, 18, 8, 16), "mask": "padded"},
    "written": {"shape": (3, 7, 18, 8, 16), "mask": "written"},
    "shared": {"shape": (3, 7, 18, 8, 16), "mask": "shared"},
    "everything": {"shape": (3, 7, 18, 8, 16), "mask": "everything"},
    "small": {"shape": (2, 5, 11, 8, 16), "scale": 1e-3},
    "wide": {"shape": (2, 5, 11, 12, 16), "scale": 5.0},
    "very wide": {"shape": (2, 5, 11, 8, 16), "scale": 30.0},
    "beyond exponentials": {"shape": (2, 5, 11, 8, 16), "scale": 100.0},
    "far apart": {"shape": (2, 5, 11, 8, 16), "shift": 15.0},
}


@pytest.fixture(autouse=True)
def _poisoned():
    """Fill uninitialised memory with NaN."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def _in_chunks(monkeypatch):
    for name, size in (("CHUNK_SCORES", 32), ("MAX_QUERIES", 4), ("MAX_KEYS", 8)):
        monkeypatch.setattr(chunks, name, size)


@pytest.mark.parametrize("case", CASES)
def test_the_exact_path_has_float32_precision(case):
    request = make(**CASES[case])
    truth, plain = formula(request), errors(formula(request, torch.float32), formula(request))
    for name, off in errors(run_path(ExactAttention, request), truth).items():
        assert off < 1e-5, name
        assert off < 8 * plain[name] + 1e-6, name


@pytest.mark.parametrize("case", CASES)
def test_the_sine_path_has_half_precision(case):
    # the interpreter does not support products of bfloat16
    request = make(**CASES[case], dtype=torch.float16)
    truth = formula(request)
    plain = errors(formula(request, torch.bfloat16), truth)
    for name, off in errors(run_path(SineAttention, request), truth).items():
        assert off < 1.5 * plain[name] + 1e-4, name


@pytest.mark.usefixtures("_in_chunks")
@pytest.mark.parametrize("case", ["padded", "wide"])
@pytest.mark.parametrize("path", [SineAttention, ExactAttention])
def test_chunks_sum_to_the_whole(path, case):
    request = make(**CASES[case], dtype=torch.float16)
    for name, off in errors(run_path(path, request), formula(request)).items():
        assert off < 5e-3, name


@pytest.mark.parametrize("path", [SineAttention, ExactAttention])
def test_nan_is_not_hidden(path):
    request = make((2, 5, 11, 8, 16), dtype=torch.float16)
    request.keys[1, 3, 5] = torch.nan
    context, _ = path(request).forward()
    assert context[0].isfinite().all()
    assert context[1].isnan().all()


@pytest.mark.parametrize("path", [SineAttention, ExactAttention])
def test_dropout_is_deterministic_and_keeps_the_mean(path):
    request = replace(make((2, 16, 64, 4, 16), dtype=torch.float16), dropout=0.3, seed=torch.tensor([7]))
    # values of one: the context is the sum of the weights
    request = replace(request, values=torch.ones_like(request.values))
    first, again = (path(request).forward()[0] for _ in range(2))
    other = path(replace(request, seed=torch.tensor([8]))).forward()[0]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert abs(first.mean() - 1.0) < 0.05
    # the context is linear in the values: its gradient shows which weights remain
    context, lse = path(request).forward()
    grads = path(request).backward(context, lse, torch.ones_like(context))
    assert (grads[3].sum(1)[:, 0] - context[..., 0].float().sum(1)).abs().max() < 0.1
