"""Multi-head attention: several attentions in parallel, each with its own projections of queries, keys and values.

    head_h = attend(W_q^h x, W_k^h y, W_v^h z),   output = W_o [head_1; ...; head_H]

Vaswani et al. 2017, section 3.2.2. https://arxiv.org/abs/1706.03762
Multi-query (Shazeer 2019, https://arxiv.org/abs/1911.02150) and grouped-query attention (Ainslie et al. 2023,
https://arxiv.org/abs/2305.13245) share one key head among several query heads. Values are projected from the same
states as keys (z = y) unless others are given, and the sizes of all these vectors are independent (HeadSizes).

Shapes: *B batch, H heads, Q queries, K keys, N packed tokens.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor, nn

from regard.attention.alignments.softmax import Softmax
from regard.attention.backends import choose_backend, reasons_to_call, reasons_to_form
from regard.attention.checks import (
    check_cache,
    check_head_groups,
    check_head_memory,
    check_key_mask,
    check_mask_over_heads,
    check_memory,
    check_packed,
    check_parts,
    check_positions,
    check_probability,
    check_query_indices,
    check_same_batch,
    check_same_batch_size,
    check_states,
    is_triangle,
)
from regard.attention.head_sizes import HeadSizes
from regard.attention.indices import pad_memory, per_head_positions, positions_of
from regard.attention.masks.algebra import ComposableMask
from regard.attention.prepared import attend_prepared, combined_mask
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
from regard.kernels import BackendChoice, pack_padded, pad_packed
from regard.kernels.dot import PackedRequest, attend_packed, packed_unsupported_reasons


@dataclass(frozen=True, kw_only=True)
class HeadInputs:
    """What the heads attend to: projected queries and memory, and the position of the memory's first key."""

    projected: Float[Tensor, "... size"]
    memory: Memory
    cache: Cache | None
    first_key: int
    is_self_attention: bool


class MultiHeadAttention(nn.Module):
    """Any score and alignment inside the heads; self-attention, or cross-attention over a prepared memory.

    `num_kv_heads` below `num_heads` groups the query heads (1 is multi-query). `source_size` is the size of the
    memory's states, if it differs; `HeadSizes` in the place of the hidden size sets all six sizes. `positions` is a
    scheme inside the heads, such as Rotary.
    """

    def __init__(
        self,
        hidden_size: int | HeadSizes,
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
        if not isinstance(hidden_size, HeadSizes):
            sizes = HeadSizes.divide(hidden_size, num_heads, source_size)
        elif source_size is None:
            sizes = hidden_size
        else:
            raise ValueError(f"source_size={source_size} and {hidden_size} were both given. Leave out source_size.")
        check_head_groups(num_heads, num_kv_heads)
        check_probability("dropout", dropout)
        self.sizes, self.head_size = sizes, sizes.head_size
        self.hidden_size, self.source_size = sizes.query_size, sizes.key_size
        self.num_heads, self.num_kv_heads = num_heads, num_kv_heads
        self.group_size = num_heads // num_kv_heads
        self.query_proj = nn.Linear(sizes.query_size, num_heads * sizes.head_size)
        self.key_proj = nn.Linear(sizes.key_size, num_kv_heads * sizes.head_size)
        self.value_proj = nn.Linear(sizes.value_size, num_kv_heads * sizes.value_head_size)
        self.output_proj = nn.Linear(num_heads * sizes.value_head_size, sizes.output_size)
        self.score = ScaledDot() if score is None else score
        self.align = Softmax() if align is None else align
        check_parts(self.score, self.align)
        check_positions(positions, sizes.head_size, sizes.value_head_size)
        self.positions = positions
        self.dropout = dropout
        self.reset_parameters()

    def extra_repr(self) -> str:
        """Settings that print shows."""
        kv_heads = "" if self.group_size == 1 else f", num_kv_heads={self.num_kv_heads}"
        return f"{self.sizes.describe(f'num_heads={self.num_heads}{kv_heads}', self.num_heads)}, dropout={self.dropout}"

    def reset_parameters(self) -> None:
        """Glorot initialisation of the matrices, zero biases."""
        for proj in (self.query_proj, self.key_proj, self.value_proj, self.output_proj):
            nn.init.xavier_uniform_(proj.weight)
            nn.init.zeros_(proj.bias)

    def prepare_memory(
        self,
        states: Float[Tensor, "... K source"],
        values: Float[Tensor, "... K value"] | None = None,
        mask: Bool[Tensor, "... K"] | None = None,
        packed: PackedTokens | None = None,
    ) -> Memory:
        """Prepare keys and values of every head; values are computed from the states unless others are given.

        `mask` is True for keys that exist. With `packed` the states are (N, size), the sequences end to end, and their
        lengths are the mask.
        """
        if values is None:
            self.sizes.check_shared_states()
            values = states
        for name, tensor, role in (("states", states, "key_size"), ("values", values, "value_size")):
            check_states(name, tensor, self)
            self.sizes.check(name, tensor, role, self.num_heads)
        if packed is not None:
            check_packed(packed, states, mask)
            mask = packed.mask
        else:
            check_key_mask(mask, states)
        return self._prepare_memory(states, values, mask, first=0, packed=packed)

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
        weights_for_queries: Int[Tensor, " requested"] | Sequence[int] | None = None,
    ) -> Attended:
        """Attend to the memory, or without one to the queries themselves; weights are per head, (.., H, Q, K).

        `cache` holds keys and values of earlier positions in self-attention; the result has the next cache.
        With `packed` the queries are (N, size), the sequences end to end, and so is the context.
        """
        inputs = self._inputs(queries, memory, mask=mask, cache=cache, packed=packed)
        needs_weights = return_weights or weights_for_queries is not None
        # reasons are generated lazily: the first one decides, and only `which_backend` collects them all
        if packed is not None and not any(True for _ in self._reasons_to_pad(inputs, packed, mask, needs_weights)):
            return Attended(context=self.output_proj(self._attend_packed(inputs, packed, mask)))
        attended = attend_prepared(
            **self._arguments(inputs, queries, packed, mask, position_info),
            return_weights=return_weights,
            weights_for_queries=weights_for_queries,
        )
        # (.., H, Q, head) becomes (.., Q, H * head)
        context = attended.context.transpose(-3, -2).flatten(-2)
        context = self.output_proj(context if packed is None else pack_padded(context, packed))
        return replace(attended, context=context, cache=inputs.cache)

    def which_backend(
        self,
        queries: Float[Tensor, "... Q hidden"],
        memory: Memory | None = None,
        *,
        mask: ComposableMask | Bool[Tensor, "..."] | None = None,
        position_info: PositionInfo | None = None,
        cache: Cache | None = None,
        packed: PackedTokens | None = None,
        return_weights: bool = False,
        weights_for_queries: Int[Tensor, " requested"] | Sequence[int] | None = None,
    ) -> BackendChoice:
        """The kernel that `forward` runs for these arguments, and every reason against the faster ones.

        "packed" computes packed batches without padding; the others are those of `attend`.
        """
        inputs = self._inputs(queries, memory, mask=mask, cache=cache, packed=packed)
        needs_weights = return_weights or weights_for_queries is not None
        refused: tuple[tuple[str, tuple[str, ...]], ...] = ()
        if packed is not None:
            reasons = tuple(self._reasons_to_pad(inputs, packed, mask, needs_weights))
            if not reasons:
                return BackendChoice("packed")
            refused = (("packed", reasons),)
        arguments = self._arguments(inputs, queries, packed, mask, position_info)
        check_query_indices(arguments["queries"], weights_for_queries, return_weights)
        context_term, _ = arguments.pop("context_term"), arguments.pop("position_info")
        choice = choose_backend(**arguments, return_weights=return_weights or context_term is not None)
        return replace(choice, refused=(*refused, *choice.refused))

    def _inputs(
        self,
        queries: Float[Tensor, "... Q hidden"],
        memory: Memory | None,
        *,
        mask: ComposableMask | Tensor | None,
        cache: Cache | None,
        packed: PackedTokens | None,
    ) -> HeadInputs:
        """Check the arguments, and prepare the memory of self-attention."""
        check_states("queries", queries, self)
        self.sizes.check("queries", queries, "query_size", self.num_heads)
        if packed is not None:
            check_packed(packed, queries, None)
        first_key, is_self_attention = 0, memory is None
        if cache is not None:
            check_cache(cache, packed)
        if memory is None:
            self.sizes.check_self_attention()
            # keys get their positions once, before they enter the cache
            first = 0 if cache is None else cache.length
            # under the causal mask no token attends to the padding after it
            key_mask = None if packed is None or is_triangle(mask) else packed.mask
            memory = self._prepare_memory(queries, queries, key_mask, first=first, packed=packed)
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
            check_memory(memory, "MultiHeadAttention")
            memory = pad_memory(memory)
            check_head_memory(memory, queries, self.num_kv_heads)
        else:
            check_memory(memory, "MultiHeadAttention")
            check_same_batch_size(packed, memory)
        return HeadInputs(
            projected=self.query_proj(queries),
            memory=memory,
            cache=cache,
            first_key=first_key,
            is_self_attention=is_self_attention,
        )

    def _arguments(
        self,
        inputs: HeadInputs,
        queries: Float[Tensor, "... Q hidden"],
        packed: PackedTokens | None,
        mask: ComposableMask | Tensor | None,
        position_info: PositionInfo | None,
    ) -> dict[str, Any]:
        """Arguments of `attend_prepared` for all heads, with what the position scheme changes."""
        memory, first_key = pad_memory(inputs.memory), inputs.first_key
        heads = self._split(inputs.projected, self.num_heads, packed)
        # the memory's mask is (.., K), and the scores have an axis of heads after its leading dimensions
        mask = combined_mask(check_mask_over_heads(mask, queries), memory.mask, num_head_axes=1)
        positions = positions_of(heads, memory.keys.shape[-2], first_key) if inputs.is_self_attention else None
        score: Score = self.score
        context_term = None
        if self.positions is not None and positions is not None:
            query_positions, key_positions = positions
            # the bias is that of the queries before their transform
            bias = self.positions.bias(heads, query_positions, key_positions)
            score = score if bias is None else Biased(score, bias)
            if self.positions.needs_weights:
                context_term = partial(
                    self.positions.context_term, query_positions=query_positions, key_positions=key_positions
                )
            heads = self.positions.transform(heads, query_positions)
        return {
            "queries": heads,
            "keys": memory.keys,
            "values": memory.values,
            "score": score,
            "align": self.align,
            "mask": mask,
            "position_info": per_head_positions(position_info, positions),
            "dropout": self.dropout if self.training else 0.0,
            "first_key": first_key,
            "group_size": self.group_size,
            "context_term": context_term,
        }

    def _prepare_memory(
        self,
        states: Tensor,
        values: Tensor,
        mask: Bool[Tensor, "... K"] | None,
        *,
        first: int,
        packed: PackedTokens | None,
    ) -> Memory:
        """Keys and values of states whose first has position `first`; packed if the kernel for it supports them."""
        projected = self.key_proj(states)
        # the reasons exclude positions and scores that prepare their keys, so neither is applied here
        if packed is not None and not any(True for _ in self._packed_unsupported_reasons(projected, packed)):
            # of equal size, which the reasons demand
            heads = (self.num_kv_heads, self.head_size)
            keys, values = projected.unflatten(-1, heads), self.value_proj(values).unflatten(-1, heads)
            return Memory(keys=keys, values=values, packed=packed)
        keys = self._split(projected, self.num_kv_heads, packed)
        if self.positions is not None:
            keys = self.positions.transform(keys, torch.arange(first, first + keys.shape[-2], device=states.device))
        values = self._split(self.value_proj(values), self.num_kv_heads, packed)
        return Memory(keys=self.score.prepare(keys), values=values, mask=mask)

    def _packed_unsupported_reasons(self, projected: Float[Tensor, "N size"], packed: PackedTokens) -> Iterator[str]:
        """Every reason why the kernel for packed sequences cannot compute these queries, or these keys."""
        # a subclass may compute other scores
        if type(self.score) not in (Dot, ScaledDot):
            yield f"{type(self.score).__name__} is neither Dot nor ScaledDot"
        if self.positions is not None:
            yield f"{type(self.positions).__name__} positions are applied inside the heads"
        if self.sizes.value_head_size != self.sizes.head_size:
            yield "keys and values inside the heads differ in size"
        if self.group_size != 1:
            yield "query heads share key heads"
        if self.dropout and self.training:
            yield "dropout is active"
        yield from reasons_to_call(self.score)
        yield from reasons_to_form(self.align, return_weights=False)
        yield from packed_unsupported_reasons(projected.unflatten(-1, (-1, self.head_size)), packed)

    def _reasons_to_pad(
        self,
        inputs: HeadInputs,
        packed: PackedTokens,
        mask: ComposableMask | Tensor | None,
        needs_weights: bool,
    ) -> Iterator[str]:
        """Every reason why packed inputs must be padded."""
        yield from self._packed_unsupported_reasons(inputs.projected, packed)
        if inputs.memory.packed is None:
            yield "the memory is padded"
        if needs_weights:
            yield "the weights are needed"
        causal = is_triangle(mask)
        if mask is not None and not causal:
            yield "the mask is not causal()"
        # identity: a comparison of lengths would read them from the device
        if causal and packed is not inputs.memory.packed:
            yield "a causal mask needs queries and keys of the same sequences"

    def _attend_packed(
        self, inputs: HeadInputs, packed: PackedTokens, mask: ComposableMask | Tensor | None
    ) -> Float[Tensor, "N size"]:
        """The context of packed sequences, without padding."""
        memory = inputs.memory
        assert memory.packed is not None
        queries = inputs.projected.unflatten(-1, (self.num_heads, self.head_size))
        lowered = self.score.lower(queries, memory.keys)
        assert isinstance(lowered, Lowered)
        request = PackedRequest(
            queries=queries,
            keys=memory.keys,
            values=memory.values,
            query_rows=packed,
            key_rows=memory.packed,
            scale=lowered.scale,
            causal=is_triangle(mask),
        )
        return attend_packed(request).flatten(-2)

    def _split(
        self, states: Float[Tensor, "... N size"], num_heads: int, packed: PackedTokens | None
    ) -> Float[Tensor, "... H L head"]:
        """(.., L, H * head) as (.., H, L, head); packed tokens are padded first."""
        states = states if packed is None else pad_packed(states, packed)
        return states.unflatten(-1, (num_heads, -1)).transpose(-3, -2)
