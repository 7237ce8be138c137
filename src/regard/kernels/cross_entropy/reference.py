"""Label-smoothed cross-entropy of a linear output layer as the formula has it.

    loss = - sum_n sum_v q_n(v) log p_n(v),   p_n = softmax(W x_n + b),   q_n(v) = (1 - e) [v = y_n] + e / V

Szegedy et al. 2016, section 7. https://arxiv.org/abs/1512.00567; in translation Vaswani et al. 2017, section 5.4.
"""

import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor


def plain_cross_entropy(
    features: Float[Tensor, "*B size"],
    weight: Float[Tensor, "vocab size"],
    bias: Float[Tensor, " vocab"] | None,
    labels: Int[Tensor, "*B"],
    *,
    ignored: int,
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Summed over the labels that are not `ignored`."""
    logits = F.linear(features, weight, bias)
    return cross_entropy_of_logits(logits, labels, ignored=ignored, label_smoothing=label_smoothing)


def cross_entropy_of_logits(
    logits: Float[Tensor, "*B vocab"], labels: Int[Tensor, "*B"], *, ignored: int, label_smoothing: float = 0.0
) -> Float[Tensor, ""]:
    """The same loss of logits that are formed already."""
    # log-softmax in float32: a sum over the vocabulary would lose half precision's few digits
    logits = logits.float() if logits.dtype.itemsize < 4 else logits
    return F.cross_entropy(
        logits.flatten(0, -2),
        labels.flatten(),
        ignore_index=ignored,
        label_smoothing=label_smoothing,
        reduction="sum",
    )
