"""A linear layer made ready equals the layer, for few rows and many, joined or alone."""

import pytest
import torch
from torch import nn

from regard.kernels.linear import ReadyLinear


@pytest.mark.parametrize("rows", [1, 3, 4, 17])
@pytest.mark.parametrize("bias", [True, False])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_ready_equals_the_layer(rows, bias, dtype):
    torch.manual_seed(0)
    layers = [nn.Linear(12, size, bias=bias, dtype=dtype) for size in (5, 7)]
    inputs = torch.randn(rows, 12, dtype=dtype)
    with torch.inference_mode():
        found = ReadyLinear.of(*layers)(inputs)
        expected = torch.cat([layer(inputs) for layer in layers], dim=-1)
    assert found.allclose(expected, atol=5e-2 if dtype is torch.bfloat16 else 1e-5)


def test_a_large_table_is_laid_out_for_a_single_row_too():
    torch.manual_seed(0)
    layer = nn.Linear(128, 10_000)
    inputs = torch.randn(1, 128)
    with torch.inference_mode():
        assert ReadyLinear.of(layer)(inputs).allclose(layer(inputs), atol=1e-5)


def test_the_result_may_be_written_over():
    layer = nn.Linear(8, 8)
    inputs = torch.randn(5, 8)
    with torch.inference_mode():
        ready = ReadyLinear.of(layer)
        first = ready(inputs).clone()
        ready(inputs).add_(1.0)
        assert torch.equal(ready(inputs), first)
