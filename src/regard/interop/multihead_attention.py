"""Drop-in for torch.nn.MultiheadAttention: its constructor, state dict, masks and results.

    head_h = softmax(Q_h K_h^T / sqrt(head_dim) + mask) V_h,   output = out_proj [head_1; ...; head_H]

Vaswani et al. 2017, section 3.2.2. https://arxiv.org/abs/1706.03762

Departs from torch's class:
- The context of a query that may attend to nothing is zeros (there NaN or zeros, depending on the code path).
- torch.nn.TransformerEncoderLayer calls this module at inference too. Of torch's own class it would take the weights
  and compute attention itself, with float masks read as booleans and NaN for such a query.
- The extra keys of `add_bias_kv` and `add_zero_attn` are allowed under `is_causal` (there only if weights are
  requested).
- A float mask of another dtype is converted, and masks of both kinds together cause no warning.
- What is an AssertionError or a RuntimeError there is a ValueError or a TypeError here.

At inference torch.nn.TransformerEncoder makes nested tensors of padded batches; these are padded here and nested again.

Shapes: *N batch (none when unbatched), H heads, L queries, S keys, E embed_dim; packed is 3 E.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import SOFTMAX, attend_prepared
from regard.attention.masks import causal
from regard.contracts import Attended
from regard.interop.multihead_masks import (
    Restriction,
    check_hint,
    check_inputs,
    check_masks,
    check_sizes,
    over_heads,
    restriction_of,
)


def check_nested(query: Tensor, key: Tensor, value: Tensor, *, batch_first: bool, has_masks: bool) -> None:
    """A nested query is self-attention, batch first, without masks, as torch's class requires."""
    reasons = []
    if query is not key or key is not value:
        reasons.append("query, key and value are not the same tensor")
    if not batch_first:
        reasons.append("batch_first is False, but rows of different length come batch first")
    if has_masks:
        reasons.append("a mask was given, but the lengths are the mask")
    if query.layout != torch.strided:
        reasons.append(f"its layout is {query.layout}, expected torch.strided")
    if reasons:
        raise ValueError(f"query is nested, and {'; '.join(reasons)}. Otherwise pass a padded batch and masks.")


def padded(nested: Tensor) -> tuple[Float[Tensor, "N L size"], Bool[Tensor, "N L"]]:
    """The sequences padded with zeros, and True where there is no padding."""
    # shapes are on the host, so this needs no synchronisation
    lengths = torch.tensor([row.shape[0] for row in nested.unbind()], device=nested.device)
    states = nested.to_padded_tensor(0.0)
    return states, torch.arange(states.shape[1], device=nested.device) < lengths[:, None]


def trimmed(
    states: Float[Tensor, "N L size"], weights: Float[Tensor, "N H L L"] | None, real: Bool[Tensor, "N L"]
) -> tuple[Tensor, Float[Tensor, "N H L L"] | None]:
    """The sequences nested again; the weights stay padded, with zeros for queries that are padding."""
    lengths = real.sum(dim=1).tolist()
    nested = torch.nested.as_nested_tensor([row[:length] for row, length in zip(states, lengths, strict=True)])
    return nested, None if weights is None else weights * real[:, None, :, None]


Three = tuple[Tensor, Tensor, Tensor]


def project_packed(
    query: Float[Tensor, "*Q E"],
    key: Float[Tensor, "*K E"],
    value: Float[Tensor, "*K E"],
    weight: Float[Tensor, "packed E"],
    bias: Float[Tensor, " packed"] | None,
) -> Three:
    """One matrix product for all that comes from the same tensor: all three in self-attention, else keys and values."""
    size = query.shape[-1]
    # identity decides: rows of the packed matrix can share a product only if they act on the same tensor
    if key is not value:
        return project(query, key, value, weight.chunk(3), bias)
    if query is key:
        queries, keys, values = F.linear(query, weight, bias).chunk(3, dim=-1)
        return queries, keys, values
    # rows of the packed matrix are in the order queries, keys, values
    biases = (None, None) if bias is None else (bias[:size], bias[size:])
    keys, values = F.linear(key, weight[size:], biases[1]).chunk(2, dim=-1)
    return F.linear(query, weight[:size], biases[0]), keys, values


def project(
    query: Float[Tensor, "*Q query"],
    key: Float[Tensor, "*K key"],
    value: Float[Tensor, "*K value"],
    weights: tuple[Tensor, ...],
    bias: Float[Tensor, " packed"] | None,
) -> Three:
    """Queries, keys and values with separate matrices; the biases come in one vector."""
    biases = (None, None, None) if bias is None else bias.chunk(3)
    queries, keys, values = map(F.linear, (query, key, value), weights, biases)
    return queries, keys, values


class MultiheadAttention(nn.MultiheadAttention):
    """Constructed, initialised, saved and called as torch's class; visible to `regard.trace`, and never NaN."""

    def __init__(  # noqa: PLR0917 - as torch has them
        self,
        embed_dim: int,
        num_heads: int,
        dropout: float = 0.0,
        bias: bool = True,
        add_bias_kv: bool = False,
        add_zero_attn: bool = False,
        kdim: int | None = None,
        vdim: int | None = None,
        batch_first: bool = False,
        device: torch.device | str | int | None = None,
        dtype: torch.dtype | None = None,
    ) -> None:
        # before torch's constructor, which reports the same mistakes as assertions
        check_sizes(embed_dim, num_heads, dropout)
        super().__init__(
            embed_dim, num_heads, dropout, bias, add_bias_kv, add_zero_attn, kdim, vdim, batch_first, device, dtype
        )
        self.register_forward_pre_hook(keep_fast_path_out)

    def __setstate__(self, state: dict[str, Any]) -> None:
        super().__setstate__(state)
        # hook ids start at 0 again in a new process, whose first hook would overwrite the pickled one
        for number, hook in list(self._forward_pre_hooks.items()):
            if hook is keep_fast_path_out:
                del self._forward_pre_hooks[number]
        self.register_forward_pre_hook(keep_fast_path_out)

    def forward(  # noqa: PLR0917 - as torch has them
        self,
        query: Tensor,
        key: Tensor,
        value: Tensor,
        key_padding_mask: Tensor | None = None,
        need_weights: bool = True,
        attn_mask: Tensor | None = None,
        average_attn_weights: bool = True,
        is_causal: bool = False,
    ) -> tuple[Tensor, Tensor | None]:
        """The output in the query's layout, and the weights (*N, L, S), or per head (*N, H, L, S), or None.

        query (L, N, embed_dim), with batch_first (N, L, embed_dim), or unbatched (L, embed_dim); key and value likewise
        with S, kdim and vdim. attn_mask (L, S) or (N * H, L, S), key_padding_mask (*N, S): True = may not attend, and
        floats are added. is_causal says that attn_mask is the causal mask. As in torch, attn_mask is then ignored if
        neither weights are requested nor a key_padding_mask is given.
        """
        check_hint(is_causal, attn_mask)
        real = None
        if query.is_nested:
            has_masks = attn_mask is not None or key_padding_mask is not None
            check_nested(query, key, value, batch_first=self.batch_first, has_masks=has_masks)
            query, real = padded(query)
            # one tensor for all three, so that the projection stays one product; torch's masks are True at padding
            key, value, key_padding_mask = query, query, ~real
        queries, keys, values = self._heads(query, key, value)
        assume = is_causal and not need_weights and key_padding_mask is None
        restriction = self._restriction(attn_mask, key_padding_mask, queries, keys, assume_causal=assume)
        attended = self._attend(queries, keys, values, restriction, return_weights=need_weights)
        output, weights = self._join(attended.context), attended.weights
        if real is not None:
            output, weights = trimmed(output, weights, real)
        if weights is not None and average_attn_weights:
            # (*N, H, L, S) becomes (*N, L, S)
            weights = weights.mean(dim=-3)
        return output, weights

    @property
    def _extra_keys(self) -> int:
        """Number of keys after those of the arguments: a learned one, and one of zeros."""
        return int(self.bias_k is not None) + int(self.add_zero_attn)

    def _heads(
        self, query: Tensor, key: Tensor, value: Tensor
    ) -> tuple[Float[Tensor, "*N H L head"], Float[Tensor, "*N H S head"], Float[Tensor, "*N H S head"]]:
        """Queries, keys and values of every head, with the extra keys."""
        weight = self.in_proj_weight if self._qkv_same_embed_dim else self.q_proj_weight
        sizes = (self.embed_dim, self.kdim, self.vdim)
        check_inputs(query, key, value, sizes=sizes, batch_first=self.batch_first, dtype=weight.dtype)
        if self._qkv_same_embed_dim:
            projected = project_packed(query, key, value, weight, self.in_proj_bias)
        else:
            weights = (weight, self.k_proj_weight, self.v_proj_weight)
            projected = project(query, key, value, weights, self.in_proj_bias)
        queries, keys, values = (self._split(states) for states in projected)
        return queries, self._extended(keys, self.bias_k), self._extended(values, self.bias_v)

    def _split(self, states: Float[Tensor, "... E"]) -> Float[Tensor, "*N H L head"]:
        """Any of the three layouts as (*N, H, L, head_dim)."""
        heads = states.unflatten(-1, (self.num_heads, self.head_dim))
        # (L, N, H, head) becomes (N, H, L, head)
        return heads.permute(1, 2, 0, 3) if self._length_first(heads) else heads.transpose(-3, -2)

    def _extended(
        self, states: Float[Tensor, "*N H S head"], learned: Float[Tensor, "1 1 E"] | None
    ) -> Float[Tensor, "*N H extended head"]:
        """Append the learned key (or value) and the one of zeros, if the module has them."""
        one = (*states.shape[:-2], 1, self.head_dim)
        parts = [states]
        if learned is not None:
            # (1, 1, E) becomes (H, 1, head), expanded over the batch; under autocast the states have another dtype
            parts.append(learned.to(states.dtype).view(self.num_heads, 1, self.head_dim).expand(one))
        if self.add_zero_attn:
            parts.append(states.new_zeros(one))
        return torch.cat(parts, dim=-2) if len(parts) > 1 else states

    def _restriction(
        self,
        attn_mask: Tensor | None,
        key_padding_mask: Tensor | None,
        queries: Float[Tensor, "*N H L head"],
        keys: Float[Tensor, "*N H S head"],
        *,
        assume_causal: bool,
    ) -> Restriction:
        """What the masks forbid and add, for all keys."""
        # masks cover the keys of the arguments, without the extra ones
        scores = (*queries.shape[:-1], keys.shape[-2] - self._extra_keys)
        # kernels implement the square causal triangle without a mask; any other mask must be passed
        if assume_causal and not self._extra_keys and scores[-2] == scores[-1]:
            return Restriction(mask=causal())
        check_masks(attn_mask, key_padding_mask, scores=scores, device=queries.device)
        masks = over_heads(attn_mask, key_padding_mask, tuple(queries.shape[:-2]))
        return restriction_of(masks, extra_keys=self._extra_keys, dtype=queries.dtype)

    def _attend(
        self,
        queries: Float[Tensor, "*N H L head"],
        keys: Float[Tensor, "*N H S head"],
        values: Float[Tensor, "*N H S head"],
        restriction: Restriction,
        *,
        return_weights: bool,
    ) -> Attended:
        """Attention of all heads: fused, unless weights are requested or traced."""
        # the scaled dot product prepares nothing, so the projected keys are passed as they are
        return attend_prepared(
            queries,
            keys,
            values,
            score=restriction.score,
            align=SOFTMAX,
            mask=restriction.mask,
            dropout=self.dropout if self.training else 0.0,
            return_weights=return_weights,
        )

    def _join(self, context: Float[Tensor, "*N H L head"]) -> Float[Tensor, "... E"]:
        """Concatenate the heads in the query's layout, contiguous as torch's output, and project them."""
        # the inverse of `_split`: (N, H, L, head) becomes (L, N, H, head)
        heads = context.permute(2, 0, 1, 3) if self._length_first(context) else context.transpose(-3, -2)
        return self.out_proj(heads.flatten(-2))

    def _length_first(self, heads: Float[Tensor, "... head"]) -> bool:
        """True if the caller's layout is (length, batch, size)."""
        return heads.ndim == 4 and not self.batch_first


def keep_fast_path_out(module: nn.Module, arguments: tuple[Any, ...]) -> None:
    """A hook that does nothing: torch.nn.TransformerEncoderLayer calls a module that has hooks.

    Without hooks it would take the weights at inference and compute attention itself.
    """
