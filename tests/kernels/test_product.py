"""The product of fused decoding: the numbers of F.linear, by either library; with gradients, torch's own."""

import sys

import pytest
import torch
import torch.nn.functional as F

from regard.contracts import torch_private
from regard.kernels import product
from regard.kernels.product import FEWEST, prefers_onednn, processor

# the package has a function of the same name as the module
MODULE = sys.modules["regard.kernels.product"]


@pytest.fixture
def calls(monkeypatch):
    """Products by oneDNN, on any processor."""
    seen, real = [], torch_private.onednn_linear

    def record(*arguments):
        seen.append(arguments)
        return real(*arguments)

    monkeypatch.setattr(torch_private, "onednn_linear", record)
    monkeypatch.setattr(MODULE, "prefers_onednn", lambda: True)
    return seen


def operands(rows=8, outputs=1024, size=256, dtype=torch.float32):
    return (
        torch.randn(rows, size, dtype=dtype),
        torch.randn(outputs, size, dtype=dtype),
        torch.randn(outputs, dtype=dtype),
    )


@pytest.mark.parametrize("has_bias", [True, False])
def test_both_libraries_give_the_same_numbers(has_bias, calls):
    inputs, weight, bias = operands()
    bias = bias if has_bias else None
    expected = F.linear(inputs.double(), weight.double(), None if bias is None else bias.double())
    actual = product(inputs, weight, bias)
    assert len(calls) == 1
    error = (actual.double() - expected).norm() / expected.norm()
    plain = (F.linear(inputs, weight, bias).double() - expected).norm() / expected.norm()
    assert error < max(2 * plain, 1e-6)


def test_other_products_are_torchs_own(calls):
    inputs, weight, bias = operands()
    others = {
        "small": operands(rows=1, outputs=64),
        "double": operands(dtype=torch.float64),
        "columns": (inputs[:, :128].contiguous(), weight[:, :128], bias),
        "gradient": (inputs, weight.clone().requires_grad_(), bias),
    }
    for name, arguments in others.items():
        assert product(*arguments).equal(F.linear(*arguments)), name
    assert calls == []
    assert len(inputs) * weight.numel() >= FEWEST
    # a parameter that needs a gradient is no obstacle where none is recorded
    with torch.no_grad():
        product(*others["gradient"])
    assert len(calls) == 1


def test_broken_numbers_stay_broken(calls):
    inputs, weight, bias = operands()
    inputs[3, 5] = torch.nan
    outputs = product(inputs, weight, bias)
    assert outputs[3].isnan().all() and not outputs[2].isnan().any()
    assert len(calls) == 1


def test_without_onednn_torchs_own_library_is_used(monkeypatch):
    prefers_onednn.cache_clear()
    monkeypatch.setattr(torch_private, "_onednn_linear", None)
    assert not prefers_onednn()
    inputs, weight, bias = operands()
    assert product(inputs, weight, bias).equal(F.linear(inputs, weight, bias))
    prefers_onednn.cache_clear()


def test_the_processor_decides(monkeypatch):
    monkeypatch.setattr(MODULE.platform, "machine", lambda: "x86_64")
    for name, expected in (("vendor_id : AuthenticAMD", True), ("vendor_id : GenuineIntel", False)):
        prefers_onednn.cache_clear()
        monkeypatch.setattr(MODULE, "processor", lambda name=name: name)
        assert prefers_onednn() is (expected and torch_private.has_onednn_linear())
    prefers_onednn.cache_clear()
    assert processor()
