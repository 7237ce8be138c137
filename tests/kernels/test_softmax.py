"""Masked softmax."""

import torch
from hypothesis import given
from hypothesis import strategies as st

from regard.kernels import masked_softmax


@given(
    st.lists(st.floats(-1e300, 1e300), min_size=1, max_size=8),
    st.integers(0, 255),
    st.sampled_from(["f8", "f4", "bf16"]),
)
def test_weights_of_allowed_keys_sum_to_one_and_others_are_zero(scores, bits, kind):
    dtype = {"f8": torch.float64, "f4": torch.float32, "bf16": torch.bfloat16}[kind]
    row = torch.tensor(scores, dtype=torch.float64).to(dtype).requires_grad_()
    mask = torch.tensor([bool(bits >> place & 1) for place in range(len(scores))])
    weights = masked_softmax(row[None, :], mask)[0]
    assert (weights[~mask] == 0).all() and (weights >= 0).all()
    readable = mask & (row > float("-inf"))
    assert abs(weights.double().sum().item() - float(readable.any())) < 0.05
    (gradient,) = torch.autograd.grad(weights.square().sum(), row)
    assert gradient.isfinite().all() and (gradient[~mask] == 0).all()


def test_nan_is_not_hidden():
    assert masked_softmax(torch.tensor([[float("nan"), 1.0]])).isnan().all()
