"""Relative positions: a learned vector per distance is added to the key, and another to the value.

    score(i, j) += q_i . a_{j-i} / sqrt(d),   context_i += sum_j weights_ij b_{j-i},   distances clipped to max_distance

Shaw, Uszkoreit and Vaswani 2018, section 3. https://arxiv.org/abs/1803.02155
There are few distances, so scores and sums are computed per distance and gathered: nothing of size Q K d is formed.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.attention.checks import check_size
from regard.attention.scores.dot import unit_variance_scale
from regard.contracts import PositionScheme


class Relative(PositionScheme):
    """Vectors of the size of a head, shared by all heads."""

    needs_weights = True

    def __init__(self, *, head_size: int, max_distance: int = 16) -> None:
        super().__init__()
        if max_distance < 0:
            raise ValueError(f"max_distance is {max_distance}, expected 0 or more.")
        self.max_distance = max_distance
        self.key_table = nn.Parameter(torch.empty(2 * max_distance + 1, head_size))
        self.value_table = nn.Parameter(torch.empty(2 * max_distance + 1, head_size))
        nn.init.xavier_uniform_(self.key_table)
        nn.init.xavier_uniform_(self.value_table)

    def extra_repr(self) -> str:
        """Settings that print shows."""
        return f"head_size={self.key_table.shape[-1]}, max_distance={self.max_distance}"

    def distances(self, query_positions: Int[Tensor, " Q"], key_positions: Int[Tensor, " K"]) -> Int[Tensor, "Q K"]:
        """Row of the tables for every pair of query and key."""
        distance = key_positions[None, :] - query_positions[:, None]
        # shifted, so that the largest distance to the left is row 0 of a table
        return distance.clamp(-self.max_distance, self.max_distance) + self.max_distance

    def bias(
        self, queries: Float[Tensor, "*B Q size"], query_positions: Int[Tensor, " Q"], key_positions: Int[Tensor, " K"]
    ) -> Float[Tensor, "*B Q K"]:
        """Scores of each query with the vectors of the distances."""
        check_size("queries", queries, self.key_table.shape[-1], f"Relative(head_size={self.key_table.shape[-1]})")
        # one score per distance, (.., Q, 2 max_distance + 1), from which each pair takes its own
        per_distance = queries @ self.key_table.to(queries.dtype).T * unit_variance_scale(queries.shape[-1])
        index = self.distances(query_positions, key_positions)
        # gather does not broadcast, so the index is expanded without a copy
        return per_distance.gather(-1, index.expand(*queries.shape[:-2], *index.shape))

    def context_term(
        self,
        weights: Float[Tensor, "*B Q K"],
        query_positions: Int[Tensor, " Q"],
        key_positions: Int[Tensor, " K"],
    ) -> Float[Tensor, "*B Q size"]:
        """The vectors of the distances, weighted by the total weight of each distance."""
        index = self.distances(query_positions, key_positions).expand(weights.shape)
        per_distance = weights.new_zeros(*weights.shape[:-1], self.value_table.shape[0])
        # all keys beyond max_distance on one side add up in the same entry
        return per_distance.scatter_add(-1, index, weights) @ self.value_table.to(weights.dtype)
