"""Multi-head attention: several small reads side by side, each with its own view of queries, keys and values.

    head_h = attend(W_q^h x, W_k^h y, W_v^h y),   output = W_o [head_1; ...; head_H]

Vaswani et al. 2017, section 3.2.2. https://arxiv.org/abs/1706.03762
Multi-query (Shazeer 2019, https://arxiv.org/abs/1911.02150) and grouped-query (Ainslie et al. 2023,
https://arxiv.org/abs/2305.13245) share one key head among several query heads.

Shapes: *B batch, H heads, Q queries, K keys.
"""

from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.alignments import Softmax
from regard.attention.biased import Biased
from regard.attention.check import (
    check_inputs,
    check_key_mask,
    check_memory,
    check_parts,
    check_probability,
    check_size,
    check_states,
)
from regard.attention.core import narrowed, read
from regard.attention.masks import Rule, as_mask
from regard.attention.positions import InsideHeads
from regard.attention.scores import ScaledDot
from regard.contracts import Align, Attended, Cache, Look, Memory, Score


class MultiHeadAttention(nn.Module):
    """Any score and alignment inside the heads; self-attention, or cross-attention over a remembered memory.

    `num_key_heads` below `num_heads` groups them (1 is multi-query); `source_size` is the size of what is remembered,
    where it differs; `positions` is a scheme that works inside the heads, such as Rotary.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        *,
        num_key_heads: int | None = None,
        source_size: int | None = None,
        score: Score | None = None,
        align: Align | None = None,
        positions: InsideHeads | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        num_key_heads = num_heads if num_key_heads is None else num_key_heads
        source_size = hidden_size if source_size is None else source_size
        check_heads(hidden_size, num_heads, num_key_heads)
        check_probability("dropout", dropout)
        self.hidden_size, self.source_size = hidden_size, source_size
        self.num_heads, self.num_key_heads = num_heads, num_key_heads
        self.head_size, self.group_size = hidden_size // num_heads, num_heads // num_key_heads
        self.query_proj = nn.Linear(hidden_size, hidden_size)
        self.key_proj = nn.Linear(source_size, num_key_heads * self.head_size)
        self.value_proj = nn.Linear(source_size, num_key_heads * self.head_size)
        self.output_proj = nn.Linear(hidden_size, hidden_size)
        self.score = score or ScaledDot()
        self.align = align or Softmax()
        check_parts(self.score, self.align)
        check_positions(positions)
        self.positions = positions
        self.dropout = dropout
        self.reset_parameters()

    def reset_parameters(self) -> None:
        """Glorot's matrices, no bias to begin with."""
        for proj in (self.query_proj, self.key_proj, self.value_proj, self.output_proj):
            nn.init.xavier_uniform_(proj.weight)
            nn.init.zeros_(proj.bias)

    def remember(
        self,
        states: Float[Tensor, "... K source"],
        values: Float[Tensor, "... K source"] | None = None,
        mask: Bool[Tensor, "... K"] | None = None,
    ) -> Memory:
        """Keys and values of every head, prepared once; the states themselves are read unless values are given."""
        for name, given in (("states", states), ("values", states if values is None else values)):
            check_states(name, given, self)
            check_size(name, given, self.source_size, f"MultiHeadAttention(source_size={self.source_size})")
        check_key_mask(mask, states)
        return self._remember(states, states if values is None else values, mask, first=0)

    def forward(
        self,
        queries: Float[Tensor, "... Q hidden"],
        memory: Memory | None = None,
        *,
        mask: Rule | Bool[Tensor, "..."] | None = None,
        look: Look | None = None,
        cache: Cache | None = None,
        return_weights: bool = False,
    ) -> Attended:
        """Read the memory, or without one the queries themselves; weights come per head, (.., H, Q, K).

        A cache holds what self-attention read before: its keys come first, and the result carries the next cache.
        """
        check_states("queries", queries, self)
        check_size("queries", queries, self.hidden_size, f"MultiHeadAttention(hidden_size={self.hidden_size})")
        first_key, alone = 0, memory is None
        if cache is not None:
            check_cache(cache)
        if memory is None:
            memory = self._remember(queries, queries, None, first=0 if cache is None else cache.length)
            if cache is not None:
                check_same_batch(cache, memory.keys)
                cache = cache.append(memory.keys, memory.values)
                memory, first_key = Memory(keys=cache.keys, values=cache.values), cache.first
        elif cache is not None or self.positions is not None:
            raise ValueError(
                "a cache and positions inside the heads belong to self-attention, but a memory was given. Leave out "
                "the memory, or build cross-attention without positions and call it without a cache."
            )
        else:
            self._check_memory(memory, queries)
        heads = self._split(self.query_proj(queries), self.num_heads)
        rule = narrowed(checked_mask(mask, queries), memory.mask, num_head_axes=1)
        look = placed(look) if not alone else placed(look, memory.keys.shape[-2], queries, first_key)
        found = self._read(heads, memory, rule, look, first_key=first_key, return_weights=return_weights)
        context = self.output_proj(found.context.transpose(-3, -2).flatten(-2))
        return replace(found, context=context, cache=cache)

    def _read(
        self,
        queries: Float[Tensor, "... H Q head"],
        memory: Memory,
        mask: Rule | None,
        look: Look | None,
        *,
        first_key: int,
        return_weights: bool,
    ) -> Attended:
        """Every head's read, with what the position scheme adds before and after."""
        score: Score = self.score
        extra = None
        if self.positions is not None:
            places = positions_of(queries, memory.keys.shape[-2], first_key)
            added = self.positions.bias(queries, *places)
            score = score if added is None else Biased(score, added)
            extra = partial(self.positions.extra, places=places) if self.positions.reads_weights else None
            queries = self.positions.turn(queries, places[0])
        return read(
            queries,
            memory.keys,
            memory.values,
            score=score,
            align=self.align,
            mask=mask,
            look=look,
            dropout=self.dropout if self.training else 0.0,
            return_weights=return_weights,
            first_key=first_key,
            group_size=self.group_size,
            extra=extra,
        )

    def _remember(self, states: Tensor, values: Tensor, mask: Bool[Tensor, "... K"] | None, *, first: int) -> Memory:
        """Prepared keys and values of states that begin at position `first`."""
        keys = self._split(self.key_proj(states), self.num_key_heads)
        if self.positions is not None:
            keys = self.positions.turn(keys, torch.arange(first, first + states.shape[-2], device=states.device))
        values = self._split(self.value_proj(values), self.num_key_heads)
        return Memory(keys=self.score.prepare(keys), values=values, mask=mask)

    def _split(self, states: Float[Tensor, "... L size"], num_heads: int) -> Float[Tensor, "... H L head"]:
        """(.., L, H * head) as (.., H, L, head)."""
        return states.unflatten(-1, (num_heads, self.head_size)).transpose(-3, -2)

    def _check_memory(self, memory: Memory, queries: Float[Tensor, "... Q hidden"]) -> None:
        """A memory that this attention made, for these queries."""
        check_memory(memory, "MultiHeadAttention")
        if memory.keys.ndim != queries.ndim + 1 or memory.keys.shape[-3] != self.num_key_heads:
            expected = (*queries.shape[:-2], self.num_key_heads, "K", "size")
            raise ValueError(
                f"memory.keys have shape {tuple(memory.keys.shape)}, expected {expected}. "
                f"Make the memory with this attention's own remember(states)."
            )
        one = slice(0, 1)
        check_inputs(queries[..., None, :, :], memory.keys[..., one, :, :], memory.values[..., one, :, :])


def check_heads(hidden_size: int, num_heads: int, num_key_heads: int) -> None:
    """Heads of equal size, in groups of equal size."""
    if min(hidden_size, num_heads, num_key_heads) < 1:
        raise ValueError(
            f"hidden_size={hidden_size}, num_heads={num_heads}, num_key_heads={num_key_heads}: expected 1 or more."
        )
    if hidden_size % num_heads:
        raise ValueError(
            f"hidden_size {hidden_size} is not divisible by num_heads {num_heads}. "
            f"Choose a head count that divides it, or hidden_size={-(-hidden_size // num_heads) * num_heads}."
        )
    if num_heads % num_key_heads:
        raise ValueError(
            f"num_heads {num_heads} is not divisible by num_key_heads {num_key_heads}: each key head serves the same "
            f"number of query heads. 1 is multi-query, {num_heads} is multi-head."
        )


def check_positions(positions: object) -> None:
    """A scheme for inside the heads; the others are added to states before any attention."""
    if positions is not None and not isinstance(positions, InsideHeads):
        raise ValueError(
            f"positions is {positions!r}, expected a scheme that works inside the heads: Rotary, Relative or Alibi. "
            f"Sinusoidal and Learned are added to the states first: attention(positions(states))."
        )


def checked_mask(mask: Rule | Tensor | None, queries: Float[Tensor, "... Q hidden"]) -> Rule | None:
    """A mask over heads: (batch, Q, K) would be read as (heads, Q, K), so it must say which it is."""
    if mask is None:
        return None
    rule = as_mask(mask)
    for tensor in rule.tensors():
        if tensor.ndim == 3 and queries.ndim == 3:
            raise ValueError(
                f"mask has shape {tuple(tensor.shape)}, which could be per row or per head. Write it as "
                f"(batch, 1, Q, K) or (1, heads, Q, K)."
            )
    return rule


def check_cache(cache: object) -> None:
    """An object, not a class or a flag."""
    if isinstance(cache, type) or not isinstance(cache, Cache):
        given = cache.__name__ if isinstance(cache, type) else type(cache).__name__
        raise ValueError(f"cache is a {given}, expected an object such as GrowingCache().")


def check_same_batch(cache: Cache, keys: Float[Tensor, "... H K key"]) -> None:
    """A cache of these rows and heads."""
    held = cache.keys if cache.length else None
    if held is not None and (held.shape[:-2] != keys.shape[:-2] or held.dtype != keys.dtype):
        raise ValueError(
            f"the cache holds keys of shape {tuple(held.shape)} and {held.dtype}, but the new ones have "
            f"{tuple(keys.shape)} and {keys.dtype}. A cache goes on with the batch it began with."
        )


def positions_of(
    queries: Float[Tensor, "... Q size"], num_keys: int, first_key: int
) -> tuple[Int[Tensor, " Q"], Int[Tensor, " K"]]:
    """Where queries and keys of one sequence stand; the last query meets the last key."""
    keys = torch.arange(first_key, first_key + num_keys, device=queries.device)
    first_query = first_key + num_keys - queries.shape[-2]
    return torch.arange(first_query, first_query + queries.shape[-2], device=queries.device), keys


def placed(
    look: Look | None, num_keys: int = 0, states: Float[Tensor, "... Q hidden"] | None = None, first_key: int = 0
) -> Look | None:
    """The look as the heads see it: given positions serve every head; in one sequence they are known without it."""
    if look is not None and look.positions is not None and look.positions.ndim > 1:
        look = replace(look, positions=look.positions.unsqueeze(-2))
    if look is not None:
        look = replace(look, queries=None)
    if states is None:
        return look
    look = look or Look()
    query_positions, key_positions = positions_of(states, num_keys, first_key)
    return replace(
        look, positions=query_positions if look.positions is None else look.positions, key_positions=key_positions
    )
