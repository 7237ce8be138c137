"""The same numbers as the entmax package, where its functions are defined."""

import entmax
import pytest
import torch

from regard.attention.alignments import Entmax, Sparsemax

CASES = {
    "sparsemax": (Sparsemax(), entmax.sparsemax),
    "entmax15": (Entmax(), entmax.entmax15),
    "entmax-1.3": (Entmax(alpha=1.3), lambda scores: entmax.entmax_bisect(scores, 1.3)),
}


@pytest.mark.parametrize("name", CASES)
def test_weights_and_gradients(name):
    align, theirs = CASES[name]
    scores = (3 * torch.randn(4, 5, 9, dtype=torch.float64)).requires_grad_()
    upstream = torch.randn(4, 5, 9, dtype=torch.float64)
    ours, expected = align(scores).weights, theirs(scores)
    assert ours.allclose(expected, atol=1e-9)
    gradients = [torch.autograd.grad((actual * upstream).sum(), scores)[0] for actual in (ours, expected)]
    assert gradients[0].allclose(gradients[1], atol=1e-7)


@pytest.mark.parametrize("name", CASES)
def test_masked_keys_equal_absent_keys(name):
    align, _ = CASES[name]
    scores = torch.randn(3, 4, 6)
    mask = torch.tensor([True, False, True, True, False, True])
    assert align(scores, mask).weights[..., mask].allclose(align(scores[..., mask]).weights, atol=1e-6)
    assert (align(scores, mask).weights[..., ~mask] == 0).all()
