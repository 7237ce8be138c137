"""Location score: a score per position that depends on the query alone, not on the keys.

    score(q, j) = (W q)_j

Luong, Pham and Manning 2015, section 3.1. https://arxiv.org/abs/1508.04025
W has one row per source position, so there is a longest source: later positions get weight 0, as in the paper.
"""

import warnings

import torch
from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.checks import check_size
from regard.contracts import Lowered
from regard.kernels.dot import dot_scores


class Location(nn.Module):
    """Scores of the first `max_length` positions."""

    def __init__(self, *, query_size: int, max_length: int) -> None:
        super().__init__()
        self.query_size, self.max_length = query_size, max_length
        self.position_proj = nn.Linear(query_size, max_length, bias=False)

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"query_size={self.query_size}, max_length={self.max_length}"

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K key"]:
        """The keys themselves, of which only the number matters."""
        if keys.shape[-2] > self.max_length:
            # Python shows equal warnings once, so the text does not name the number of keys
            warnings.warn(
                f"Location has {self.max_length} positions but there are more keys: those past {self.max_length} are "
                f"never attended to. Build it with a larger max_length.",
                stacklevel=2,
            )
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every position for every query."""
        positions = self.positions(queries, keys.shape[-2])
        scores = dot_scores(queries, positions)
        # the position vectors have no batch axis, so leading dimensions of the keys are added
        scores = scores.expand(*torch.broadcast_shapes(scores.shape[:-2], keys.shape[:-2]), *scores.shape[-2:])
        beyond = keys.shape[-2] - positions.shape[-2]
        # -inf, so that these keys get weight 0 exactly
        return torch.nn.functional.pad(scores, (0, beyond), value=float("-inf")) if beyond else scores

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K key"]) -> Lowered | str:
        """A dot product with one learned vector per position."""
        if keys.shape[-2] > self.max_length:
            return "there are more keys than Location has positions; the later ones score -inf"
        return Lowered(queries=queries, keys=self.positions(queries, keys.shape[-2]))

    def positions(self, queries: Float[Tensor, "... Q query"], num_keys: int) -> Float[Tensor, "K query"]:
        """The learned vectors of the first positions, one per key."""
        check_size("queries", queries, self.query_size, f"Location(query_size={self.query_size})")
        return self.position_proj.weight[:num_keys].to(queries.dtype)
