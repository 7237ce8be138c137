"""A mask over heads, seen by heads in groups: (.., H, Q, K) becomes (.., H / G, G, Q, K)."""

from dataclasses import dataclass

import torch
from jaxtyping import Bool
from torch import Tensor

from regard.attention.masks.mask import Rule, Span
from regard.contracts import Grid


@dataclass(frozen=True, eq=False)
class Grouped(Rule):
    """Lets grouped-query attention keep its keys unrepeated while the user's mask speaks of all heads."""

    inner: Rule
    num_groups: int
    group_size: int

    @property
    def structured(self) -> bool:
        """Whether the inner mask is a rule over positions."""
        return self.inner.structured

    def allowed(self, grid: Grid) -> Bool[Tensor, "..."]:
        """The inner mask asked per head, its head dimension split in two."""
        *before, _, _ = grid.rows
        flat = tuple(row.squeeze(-3) for row in before)
        heads = torch.arange(self.num_groups * self.group_size, device=grid.keys.device)[:, None, None]
        allowed = self.inner.allowed(Grid(rows=(*flat, heads), queries=grid.queries, keys=grid.keys))
        if allowed.ndim < 3:
            return allowed
        if allowed.shape[-3] == 1:
            return allowed.unsqueeze(-3)
        return allowed.unflatten(-3, (self.num_groups, self.group_size))

    def span(self, first: int, last: int) -> Span:
        """The inner mask's."""
        return self.inner.span(first, last)

    def tensors(self) -> tuple[Tensor, ...]:
        """The boolean tensors inside."""
        return self.inner.tensors()
