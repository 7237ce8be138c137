"""General score: a learned bilinear form.

    score(q, k) = q W k

Luong, Pham and Manning 2015, section 3.1. https://arxiv.org/abs/1508.04025
"""

from jaxtyping import Float
from torch import Tensor, nn

from regard.attention.check import check_size
from regard.contracts import Lowered
from regard.kernels import dot_scores


class General(nn.Module):
    """Queries and keys may differ in size; the query is projected, so that keys are compared as they are."""

    def __init__(self, *, query_size: int, key_size: int) -> None:
        super().__init__()
        self.query_size, self.key_size = query_size, key_size
        self.query_proj = nn.Linear(query_size, key_size, bias=False)

    def prepare(self, keys: Float[Tensor, "... K key"]) -> Float[Tensor, "... K key"]:
        """Keys are compared as they are."""
        check_size("keys", keys, self.key_size, f"General(key_size={self.key_size})")
        return keys

    def forward(
        self, queries: Float[Tensor, "*#B Q query"], keys: Float[Tensor, "*#B K key"]
    ) -> Float[Tensor, "*B Q K"]:
        """Score every query against every key."""
        check_size("queries", queries, self.query_size, f"General(query_size={self.query_size})")
        return dot_scores(self.query_proj(queries), keys)

    def lower(self, queries: Float[Tensor, "... Q query"], keys: Float[Tensor, "... K key"]) -> Lowered:
        """Project the query, then dot."""
        check_size("queries", queries, self.query_size, f"General(query_size={self.query_size})")
        return Lowered(queries=self.query_proj(queries), keys=keys)
