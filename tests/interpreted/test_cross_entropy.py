"""The kernel of the loss by Triton's interpreter: loss and gradient of the torch version."""

import pytest
import torch

from regard.kernels import triton_support as tiles
from regard.kernels.cross_entropy import chunked as module
from regard.kernels.cross_entropy.chunked import loss_by_kernel, loss_by_torch

if not tiles.INSTALLED or not tiles.INTERPRETED:
    pytest.skip("needs Triton and TRITON_INTERPRET=1", allow_module_level=True)

pytestmark = pytest.mark.unchecked


@pytest.mark.parametrize("smoothing", [0.0, 0.1])
@pytest.mark.parametrize("block", [16, 64])
@pytest.mark.parametrize("ignored", [0, 1, -100])
def test_loss_and_gradient(monkeypatch, smoothing, block, ignored):
    monkeypatch.setattr(module, "MAX_BLOCK", block)
    logits, labels = 5 * torch.randn(9, 45), torch.randint(2, 45, (9,))
    labels[::4] = ignored
    logits[0, 3] = -float("inf") if smoothing == 0.0 else -30.0
    expected, gradient = loss_by_torch(logits.clone(), labels, ignored, smoothing, gradient=True)
    actual, place = loss_by_kernel(logits, labels, ignored, smoothing, gradient=True)
    assert actual.item() == pytest.approx(expected.item(), rel=1e-6)
    assert place is logits, "the gradient is written over the logits"
    torch.testing.assert_close(place, gradient, rtol=1e-5, atol=1e-7)


def test_without_a_gradient_logits_are_unchanged_and_invalid_labels_give_nan():
    logits = torch.randn(3, 20)
    original = logits.clone()
    labels = torch.tensor([3, 20, 0])
    loss, gradient = loss_by_kernel(logits, labels, 0, 0.0, gradient=False)
    assert loss.isnan() and gradient is None
    assert torch.equal(logits, original)
