"""Gaussian features by Triton's interpreter: the product is the score, gradients are autograd's."""

import pytest
import torch

from regard.kernels import triton_support as tiles
from regard.kernels.gaussian.features import gaussian_features

if not tiles.INSTALLED or not tiles.INTERPRETED:
    pytest.skip("needs Triton and TRITON_INTERPRET=1", allow_module_level=True)

pytestmark = pytest.mark.unchecked


def middle_of_nine(keys):
    """The origin of the features."""
    picked = keys[..., [keys.shape[-2] * part // 18 for part in (1, 7, 13, 3, 9, 15, 5, 11, 17)], :]
    return picked.unflatten(-2, (3, 3)).median(dim=-2).values.median(dim=-2, keepdim=True).values


@pytest.mark.parametrize("widths", [False, True])
def test_products_of_features_are_scores(widths):
    queries, keys = (torch.randn(2, length, 9, dtype=torch.float16, requires_grad=True) for length in (5, 20))
    # every second element: a tensor that is not contiguous
    width = (torch.rand(18)[::2] + 0.5 if widths else torch.tensor(0.7)).requires_grad_()
    origin = middle_of_nine(keys.detach())
    sides = gaussian_features(queries, keys, width)
    assert [side.shape[-1] for side in sides] == [16, 16]
    actual = sides[0].double() @ sides[1].double().mT

    wide = [side.detach().double().requires_grad_() for side in (queries, keys, width)]
    points = [(side - origin.double()) * wide[2] for side in wide[:2]]
    truth = points[0] @ points[1].mT - points[1].square().sum(-1)[:, None] / 2
    assert (actual - truth).abs().max() < 0.02
    change = torch.randn(actual.shape, dtype=torch.float64)
    gradients = torch.autograd.grad(actual, (queries, keys, width), change)
    for one, other in zip(gradients, torch.autograd.grad(truth, wide, change), strict=True):
        assert (one - other).norm() / other.norm() < 5e-3
