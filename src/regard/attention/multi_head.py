"""Multi-head attention: several small reads side by side, each with its own view of queries, keys and values.

    head_h = attend(W_q^h x, W_k^h y, W_v^h y),   output = W_o [head_1; ...; head_H]

Vaswani et al. 2017, section 3.2.2. https://arxiv.org/abs/1706.03762
Multi-query (Shazeer 2019, https://arxiv.org/abs/1911.02150) and grouped-query (Ainslie et al. 2023,
https://arxiv.org/abs/2305.13245) share one key head among several query heads.

Shapes: *B batch, H heads, Q queries, K keys.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.alignments.softmax import Softmax
from regard.attention.attention import narrowed, read
from regard.attention.backends import reasons_to_form
from regard.attention.checks import (
    check_cache,
    check_heads,
    check_inputs,
    check_key_mask,
    check_memory,
    check_packed,
    check_parts,
    check_positions,
    check_probability,
    check_same_batch,
    check_same_rows,
    check_size,
    check_states,
    checked_mask,
    is_triangle,
)
from regard.attention.indices import pad_memory, placed, positions_of
from regard.attention.masks.algebra import ComposableMask
from regard.attention.scores.dot import Dot, ScaledDot
from regard.attention.scores.with_bias import Biased
from regard.contracts import (
    Alignment,
    Attended,
    Cache,
    Lowered,
    Memory,
    PackedTokens,
    PositionInfo,
    PositionScheme,
    Score,
)
from regard.kernels import pack_padded, pad_packed
from regard.kernels.dot import PackedRequest, attend_packed, packed_unsupported_reasons


class MultiHeadAttention(nn.Module):
    """Any score and alignment inside the heads; self-attention, or cross-attention over a remembered memory.

    `num_kv_heads` below `num_heads` groups them (1 is multi-query); `source_size` is the size of what is remembered,
    where it differs; `positions` is a scheme that works inside the heads, such as Rotary.
    """

    def __init__(
        self,
        hidden_size: int,
        num_heads: int,
        *,
        num_kv_heads: int | None = None,
        source_size: int | None = None,
        score: Score | None = None,
        align: Alignment | None = None,
        positions: PositionScheme | None = None,
        dropout: float = 0.0,
    ) -> None:
        super().__init__()
        num_kv_heads = num_heads if num_kv_heads is None else num_kv_heads
        source_size = hidden_size if source_size is None else source_size
        check_heads(hidden_size, num_heads, num_kv_heads)
        check_probability("dropout", dropout)
        self.hidden_size, self.source_size = hidden_size, source_size
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.head_size, self.group_size = hidden_size // num_heads, num_heads // num_kv_heads
        self.query_proj = nn.Linear(hidden_size, hidden_size)
        self.key_proj = nn.Linear(source_size, num_kv_heads * self.head_size)
        self.value_proj = nn.Linear(source_size, num_kv_heads * self.head_size)
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

    def prepare_memory(
        self,
        states: Float[Tensor, "... K source"],
        values: Float[Tensor, "... K source"] | None = None,
        mask: Bool[Tensor, "... K"] | None = None,
        packed: PackedTokens | None = None,
    ) -> Memory:
        """Keys and values of every head, prepared once; the states themselves are read unless values are given.

        `packed` says that the states lie end to end, (N, size), and where; their rows' lengths are then the mask.
        """
        for name, given in (("states", states), ("values", states if values is None else values)):
            check_states(name, given, self)
            check_size(name, given, self.source_size, f"MultiHeadAttention(source_size={self.source_size})")
        if packed is not None:
            check_packed(packed, states, mask)
            mask = packed.mask
        else:
            check_key_mask(mask, states)
        return self._prepare_memory(states, states if values is None else values, mask, first=0, packed=packed)

    def forward(
        self,
        queries: Float[Tensor, "... Q hidden"],
        memory: Memory | None = None,
        *,
        mask: ComposableMask | Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
        cache: Cache | None = None,
        packed: PackedTokens | None = None,
        return_weights: bool = False,
        weights_for_queries: Int[Tensor, " chosen"] | Sequence[int] | None = None,
    ) -> Attended:
        """Read the memory, or without one the queries themselves; weights come per head, (.., H, Q, K).

        `weights_for_queries` asks for those of a few queries alone, which are formed beside a fused read.

        A cache holds what self-attention read before: its keys come first, and the result carries the next cache.
        `packed` says that the queries lie end to end, (N, size), and where; so does the context then.
        """
        check_states("queries", queries, self)
        check_size("queries", queries, self.hidden_size, f"MultiHeadAttention(hidden_size={self.hidden_size})")
        first_key, alone = 0, memory is None
        if cache is not None:
            check_cache(cache)
        if memory is None:
            first = 0 if cache is None else cache.length
            real = None if packed is None or is_triangle(mask) else packed.mask
            memory = self._prepare_memory(queries, queries, real, first=first, packed=packed)
            if cache is not None:
                check_same_batch(cache, memory.keys)
                cache = cache.append(memory.keys, memory.values)
                assert cache.keys is not None
                assert cache.values is not None
                memory, first_key = Memory(keys=cache.keys, values=cache.values), cache.first
        elif cache is not None or self.positions is not None:
            raise ValueError(
                "a cache and positions inside the heads belong to self-attention, but a memory was given. Leave out "
                "the memory, or build cross-attention without positions and call it without a cache."
            )
        elif packed is None:
            memory = self._checked_memory(memory, queries)
        else:
            check_same_rows(packed, memory)
        projected = self.query_proj(queries)
        if memory.packed is not None:
            formed = return_weights or weights_for_queries is not None
            context = None if formed else self._read_end_to_end(projected, packed, memory, mask)
            if context is not None:
                return Attended(context=self.output_proj(context))
            memory = pad_memory(memory)
        heads = self._split(projected, self.num_heads, packed)
        rule = narrowed(checked_mask(mask, queries), memory.mask, num_head_axes=1)
        position_info = (
            placed(position_info) if not alone else placed(position_info, memory.keys.shape[-2], heads, first_key)
        )
        found = self._read(
            heads,
            memory,
            rule,
            position_info,
            first_key=first_key,
            return_weights=return_weights,
            weights_for_queries=weights_for_queries,
        )
        context = found.context.transpose(-3, -2).flatten(-2)
        context = self.output_proj(context if packed is None else pack_padded(context, packed))
        return replace(found, context=context, cache=cache)

    def _read(
        self,
        queries: Float[Tensor, "... H Q head"],
        memory: Memory,
        mask: ComposableMask | None,
        position_info: PositionInfo | None,
        *,
        first_key: int,
        return_weights: bool,
        weights_for_queries: Int[Tensor, " chosen"] | Sequence[int] | None,
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
            position_info=position_info,
            dropout=self.dropout if self.training else 0.0,
            return_weights=return_weights,
            weights_for_queries=weights_for_queries,
            first_key=first_key,
            group_size=self.group_size,
            extra=extra,
        )

    def _prepare_memory(
        self,
        states: Tensor,
        values: Tensor,
        mask: Bool[Tensor, "... K"] | None,
        *,
        first: int,
        packed: PackedTokens | None,
    ) -> Memory:
        """Prepared keys and values of states that begin at position `first`; packed ones end to end if they can be."""
        projected = self.key_proj(states)
        if packed is not None and self._kernel_serves(projected, packed):
            heads = (self.num_kv_heads, self.head_size)
            keys, values = projected.unflatten(-1, heads), self.value_proj(values).unflatten(-1, heads)
            return Memory(keys=keys, values=values, packed=packed)
        keys = self._split(projected, self.num_kv_heads, packed)
        if self.positions is not None:
            keys = self.positions.turn(keys, torch.arange(first, first + keys.shape[-2], device=states.device))
        values = self._split(self.value_proj(values), self.num_kv_heads, packed)
        return Memory(keys=self.score.prepare(keys), values=values, mask=mask)

    def _kernel_serves(self, projected: Float[Tensor, "N size"], packed: PackedTokens) -> bool:
        """Whether the kernel for packed rows reads these heads as they lie."""
        plain = type(self.score) in (Dot, ScaledDot) and self.positions is None and self.group_size == 1
        if not plain or (self.dropout and self.training) or reasons_to_form(self.align, return_weights=False):
            return False
        return not any(packed_unsupported_reasons(projected.unflatten(-1, (-1, self.head_size)), packed))

    def _read_end_to_end(
        self,
        projected: Float[Tensor, "N size"],
        packed: PackedTokens | None,
        memory: Memory,
        mask: ComposableMask | Tensor | None,
    ) -> Float[Tensor, "N size"] | None:
        """Every row's read with nothing spread out, where the kernel serves: no mask, or one row's own triangle."""
        if packed is None or memory.packed is None or not self._kernel_serves(projected, packed):
            return None
        causal = is_triangle(mask)
        if (mask is not None and not causal) or (causal and packed is not memory.packed):
            return None
        queries = projected.unflatten(-1, (self.num_heads, self.head_size))
        lowered = self.score.lower(queries, memory.keys)
        assert isinstance(lowered, Lowered)
        asked = PackedRequest(
            queries=queries,
            keys=memory.keys,
            values=memory.values,
            query_rows=packed,
            key_rows=memory.packed,
            scale=lowered.scale,
            causal=causal,
        )
        return attend_packed(asked).flatten(-2)

    def _split(
        self, states: Float[Tensor, "... N size"], num_heads: int, packed: PackedTokens | None
    ) -> Float[Tensor, "... H L head"]:
        """(.., L, H * head) as (.., H, L, head); packed tokens go to their cells first."""
        states = states if packed is None else pad_packed(states, packed)
        return states.unflatten(-1, (num_heads, self.head_size)).transpose(-3, -2)

    def _checked_memory(self, memory: Memory, queries: Float[Tensor, "... Q hidden"]) -> Memory:
        """A memory that this attention made, for these queries; spread out if it lay end to end."""
        check_memory(memory, "MultiHeadAttention")
        memory = pad_memory(memory)
        if memory.keys.ndim != queries.ndim + 1 or memory.keys.shape[-3] != self.num_kv_heads:
            expected = (*queries.shape[:-2], self.num_kv_heads, "K", "size")
            raise ValueError(
                f"memory.keys have shape {tuple(memory.keys.shape)}, expected {expected}. "
                f"Make the memory with this attention's own prepare_memory(states)."
            )
        one = slice(0, 1)
        check_inputs(queries[..., None, :, :], memory.keys[..., one, :, :], memory.values[..., one, :, :])
        return memory
