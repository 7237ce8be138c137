"""Dot-product scores and attention as the formula has them.

    context = softmax(scale * queries keys^T + bias) values

Kernels are held to this: outputs and gradients err at most twice as much against float64.
"""

from jaxtyping import Float
from torch import Tensor

from regard.kernels.dot.read import DotRead
from regard.kernels.softmax import masked_softmax


def dot_scores(
    queries: Float[Tensor, "*#B Q size"], keys: Float[Tensor, "*#B K size"], scale: float = 1.0
) -> Float[Tensor, "*B Q K"]:
    """scale * q . k for every pair; the queries are scaled, being fewer than the pairs."""
    return (queries * scale if scale != 1.0 else queries) @ keys.transpose(-2, -1)


def read_plain(read: DotRead) -> Float[Tensor, "... Q value"]:
    """Forms every weight."""
    scores = dot_scores(read.queries, read.keys, read.scale)
    if read.bias is not None:
        scores = scores + read.bias
    return masked_softmax(scores, read.allowed()) @ read.values
