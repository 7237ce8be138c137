"""What training and evaluation hand to a model: a source, what its decoder reads, and what it should say."""

from dataclasses import dataclass

from jaxtyping import Int
from torch import Tensor

from regard.contracts.packed import Packed
from regard.contracts.sequences import Sequences


@dataclass(frozen=True, kw_only=True)
class Batch:
    """Pairs of sentences under teacher forcing.

    source x_1 .. x_m <eos>;  target <bos> y_1 .. y_n, what the decoder reads;  labels y_1 .. y_n <eos>, in the shape of
    the target's ids, <pad> where there is nothing to say. `num_tokens` counts the real labels, known to the host.
    """

    source: Sequences | Packed
    target: Sequences | Packed
    labels: Int[Tensor, "..."]
    num_tokens: int
