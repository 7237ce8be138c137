"""The Triton kernels of additive attention on the CPU, by Triton's interpreter: `make pytest` runs them so."""

from dataclasses import replace

import pytest
import torch

from regard.kernels import triton_support as tiles
from regard.kernels.additive import chunked as chunks
from tests.kernels.additive_cases import by_walk, errors, formula, make

if not tiles.INSTALLED or not tiles.INTERPRETED:
    pytest.skip("needs Triton and TRITON_INTERPRET=1", allow_module_level=True)

from regard.kernels.additive.exact import ExactWalk
from regard.kernels.additive.sine import SineWalk

pytestmark = [
    pytest.mark.unchecked,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # numpy's, of logarithms of 0
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
    """Memory that nobody wrote is not a number."""
    torch.use_deterministic_algorithms(True)
    yield
    torch.use_deterministic_algorithms(False)


@pytest.fixture
def _in_chunks(monkeypatch):
    for name, size in (("CELLS", 32), ("MOST_QUERIES", 4), ("MOST_KEYS", 8)):
        monkeypatch.setattr(chunks, name, size)


@pytest.mark.parametrize("case", CASES)
def test_exact_is_as_good_as_float32_can_be(case):
    rows = make(**CASES[case])
    truth, plain = formula(rows), errors(formula(rows, torch.float32), formula(rows))
    for name, off in errors(by_walk(ExactWalk, rows), truth).items():
        assert off < 1e-5, name
        assert off < 8 * plain[name] + 1e-6, name


@pytest.mark.parametrize("case", CASES)
def test_sine_is_as_good_as_half_precision(case):
    # the interpreter multiplies no bfloat16
    rows = make(**CASES[case], dtype=torch.float16)
    truth = formula(rows)
    plain = errors(formula(rows, torch.bfloat16), truth)
    for name, off in errors(by_walk(SineWalk, rows), truth).items():
        assert off < 1.5 * plain[name] + 1e-4, name


@pytest.mark.usefixtures("_in_chunks")
@pytest.mark.parametrize("case", ["padded", "wide"])
@pytest.mark.parametrize("walk_type", [SineWalk, ExactWalk])
def test_chunks_add_up(walk_type, case):
    rows = make(**CASES[case], dtype=torch.float16)
    for name, off in errors(by_walk(walk_type, rows), formula(rows)).items():
        assert off < 5e-3, name


@pytest.mark.parametrize("walk_type", [SineWalk, ExactWalk])
def test_what_is_not_a_number_shows(walk_type):
    rows = make((2, 5, 11, 8, 16), dtype=torch.float16)
    rows.keys[1, 3, 5] = torch.nan
    context, _ = walk_type(rows).forward()
    assert context[0].isfinite().all()
    assert context[1].isnan().all()


@pytest.mark.parametrize("walk_type", [SineWalk, ExactWalk])
def test_dropped_weights_are_the_same_each_time_and_keep_the_mean(walk_type):
    rows = replace(make((2, 16, 64, 4, 16), dtype=torch.float16), dropout=0.3, seed=torch.tensor([7]))
    # values of one: the context is the sum of the weights
    rows = replace(rows, values=torch.ones_like(rows.values))
    first, again = (walk_type(rows).forward()[0] for _ in range(2))
    other = walk_type(replace(rows, seed=torch.tensor([8]))).forward()[0]
    assert torch.equal(first, again)
    assert not torch.equal(first, other)
    assert abs(first.mean() - 1.0) < 0.05
    # the context is linear in the values: its gradient says which weights were kept
    context, lse = walk_type(rows).forward()
    grads = walk_type(rows).backward(context, lse, torch.ones_like(context))
    assert (grads[3].sum(1)[:, 0] - context[..., 0].float().sum(1)).abs().max() < 0.1
