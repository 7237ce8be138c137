"""Cross-entropy of a linear output layer, with label smoothing, without forming all logits at once."""

from regard.kernels.cross_entropy.chunked import chunked_cross_entropy
from regard.kernels.cross_entropy.reference import cross_entropy_of_logits, plain_cross_entropy

__all__ = [
    "chunked_cross_entropy",
    "cross_entropy_of_logits",
    "plain_cross_entropy",
]
