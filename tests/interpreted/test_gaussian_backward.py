"""The backward pass of Gaussian attention by Triton's interpreter: autograd's gradients."""

import pytest
import torch

from regard.kernels import triton_support as tiles
from regard.kernels.gaussian import fused

if not tiles.INSTALLED or not tiles.INTERPRETED:
    pytest.skip("needs Triton and TRITON_INTERPRET=1", allow_module_level=True)

pytestmark = [
    pytest.mark.unchecked,
    pytest.mark.filterwarnings("ignore::RuntimeWarning"),  # numpy's, of infinities
]


@pytest.mark.parametrize("blocks", [(16, 32, 2, 4), (32, 16, 2, 4), (16, 16, 2, 4)])
@pytest.mark.parametrize(
    ("num_queries", "num_keys", "is_causal"),
    [(64, 32, False), (37, 37, False), (21, 50, False), (1, 1, False), (64, 64, True), (37, 37, True), (1, 1, True)],
)
def test_gradients(monkeypatch, num_queries, num_keys, is_causal, blocks):
    monkeypatch.setitem(fused.TILES, 64, (blocks, blocks))
    queries, keys = (torch.randn(1, 2, length, 48, dtype=torch.float16) / 3 for length in (num_queries, num_keys))
    queries[..., 32:] = torch.tensor([1.0, 1.0, *[0.0] * 14])
    keys[..., 34:] = 0.0
    values = torch.randn(1, 2, num_keys, 32, dtype=torch.float16)
    wide = [tensor.double().requires_grad_() for tensor in (queries, keys, values)]
    scores = wide[0] @ wide[1].mT
    if is_causal:
        scores = scores.masked_fill(torch.ones(num_queries, num_keys).triu(1).bool(), float("-inf"))
    context, lse = scores.softmax(-1) @ wide[2], scores.logsumexp(-1)
    grad = torch.randn(context.shape)
    truth = torch.autograd.grad(context, wide, grad.double())
    with torch.no_grad():
        given = (context.half(), lse.float().reshape(-1), grad.half())
        found = fused.gradients((queries, keys, values), *given, is_causal=is_causal)
    for which, (one, other) in enumerate(zip(found, truth, strict=True)):
        # nobody asks what the ones are due, nor the zeros
        columns = slice(None) if which == 2 else slice(32 + which)
        error, scale = (one[..., columns].double() - other[..., columns]).norm(), other[..., columns].norm()
        assert error < 3e-3 * scale + 1e-3
        if which < 2:
            assert not one[..., 34:].any()
