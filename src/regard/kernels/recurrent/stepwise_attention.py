"""Attention to one memory at every step of a loop, with sums over the steps formed once where they are products.

    scores_t = q_t . k   or   v . tanh(q_t + k),    a_t = softmax(scores_t) over the keys that the mask allows
    c_t      = sum_k a_tk values_k
    dV = [a_1 .. a_T]^T [dc_1 .. dc_T],    dK = [ds_1 .. ds_T]^T [q_1 .. q_T]               dot score
    dq_t = v * sum_k ds_tk (1 - h_tk^2),   dK = v * sum_t ds_t (1 - h_t^2),   dv = sum_t ds_t h_t     additive score

The products are formed by one node of the graph that each step's gradients reach through slots (deferred_linear.py).
Keys under a tanh have no such product. Their gradient and that of v are added up in two buffers during the backward
pass: the forward pass hands keys and v from step to step unchanged, so that autograd hands the buffers, as the
gradients of these two, from the last step to the first. dK is multiplied by v once, at the end.

Shapes: B batch, K keys, V size of the values, H size of a query, T steps.
"""

from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.contracts import torch_private
from regard.kernels.autograd import LOOP, differentiable_once


class PreparedMask:
    """A mask as numbers: 0 or -inf to add to the scores, and 1 or 0 for a batch element with or without a key."""

    def __init__(self, mask: Bool[Tensor, "B K"] | None) -> None:
        self.bias = self.has_keys = None
        if mask is not None:
            has_keys = mask.any(dim=-1, keepdim=True)
            # softmax of -inf alone is NaN: without a key the scores stay as they are, and the weights become 0
            self.bias = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device).masked_fill_(
                has_keys & ~mask, float("-inf")
            )
            self.has_keys = has_keys.to(self.bias.dtype)

    def softmax(self, scores: Float[Tensor, "B K"]) -> Float[Tensor, "B K"]:
        """Weights over the allowed keys, in at least float32."""
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if self.bias is None or self.has_keys is None:
            return torch.softmax(scores, dim=-1)
        return torch.softmax(scores + self.bias, dim=-1).mul_(self.has_keys)


class StepwiseDotAttention:
    """Attention by dot products for one loop of `num_steps` steps."""

    def __init__(
        self,
        keys: Float[Tensor, "B K H"],
        values: Float[Tensor, "B K V"],
        mask: Bool[Tensor, "B K"] | None,
        *,
        num_steps: int,
    ) -> None:
        self.keys, self.values, self.mask = keys.detach(), values.detach(), PreparedMask(mask)
        # detached lists, which the graph holds
        self.queries: list[Tensor] = []
        self.weights: list[Tensor] = []
        scores, contexts = _CollectDots.apply(keys, values, num_steps, self.queries, self.weights)
        self.slots = list(zip(scores.unbind(0), contexts.unbind(0), strict=True))

    def __call__(self, query: Float[Tensor, "B H"]) -> tuple[Float[Tensor, "B V"], Float[Tensor, "B K"]]:
        """Context and weights of the next step."""
        slots = self.slots[len(self.queries)]
        query = query.to(self.keys.dtype)
        context, weights = _AttendByDots.apply(query, *slots, self)
        self.queries.append(query.detach())
        self.weights.append(weights.detach())
        return context, weights


class _CollectDots(torch.autograd.Function):
    """Keys and values to slots of scores and contexts; the slots' gradients to those of keys and values."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any, keys: Tensor, values: Tensor, num_steps: int, queries: list[Tensor], weights: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        ctx.queries, ctx.weights = queries, weights
        batch_size, num_keys, size = values.shape
        dtype = torch.promote_types(keys.dtype, torch.float32)
        scores = keys.new_empty(1, dtype=dtype).expand(num_steps, batch_size, num_keys)
        return scores, values.new_empty(1).expand(num_steps, batch_size, size)

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, score_grads: Tensor, context_grads: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad
        return (
            outer_sum(score_grads[: len(ctx.queries)], torch.stack(ctx.queries)) if needed[0] else None,
            outer_sum(torch.stack(ctx.weights), context_grads[: len(ctx.weights)]) if needed[1] else None,
            *[None] * 3,
        )


def outer_sum(left: Float[Tensor, "T B K"], right: Float[Tensor, "T B size"]) -> Float[Tensor, "B K size"]:
    """sum_t left_t right_t^T for every batch element."""
    return torch.bmm(left.permute(1, 2, 0).to(right.dtype), right.transpose(0, 1))


class _AttendByDots(torch.autograd.Function):
    """One step."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, score_slot: Tensor, context_slot: Tensor, attention: StepwiseDotAttention
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        keys, values = attention.keys, attention.values
        weights = attention.mask.softmax(torch.bmm(query.unsqueeze(1), keys.transpose(1, 2)).squeeze(1))
        ctx.save_for_backward(keys, values, weights)
        return torch.bmm(weights.to(values.dtype).unsqueeze(1), values).squeeze(1), weights

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, context_grad: Tensor | None, weights_grad: Tensor | None) -> tuple[Tensor | None, ...]:
        if context_grad is None and weights_grad is None:
            return None, None, None, None
        keys, values, weights = ctx.saved_tensors
        grad = score_grad(weights, values, context_grad, weights_grad)
        return torch.bmm(grad.to(keys.dtype).unsqueeze(1), keys).squeeze(1), grad, context_grad, None


class StepwiseAdditiveAttention:
    """Attention by the additive score, with projected keys, for one loop of `num_steps` steps."""

    def __init__(
        self,
        keys: Float[Tensor, "B K H"],
        energy: Float[Tensor, " H"],
        values: Float[Tensor, "B K V"],
        mask: Bool[Tensor, "B K"] | None,
        *,
        num_steps: int,
    ) -> None:
        self.values, self.mask = values.detach(), PreparedMask(mask)
        self.weights: list[Tensor] = []
        self.keys, self.energy, slots = _CollectSums.apply(keys, energy.to(keys.dtype), values, num_steps, self.weights)
        self.slots = slots.unbind(0)

    def __call__(self, query: Float[Tensor, "B H"]) -> tuple[Float[Tensor, "B V"], Float[Tensor, "B K"]]:
        """Context and weights of the next step."""
        slot = self.slots[len(self.weights)]
        query = query.to(self.keys.dtype)
        context, weights, self.keys, self.energy = _AttendBySums.apply(
            query, slot, self.keys, self.energy, self.values, self.mask
        )
        self.weights.append(weights.detach())
        return context, weights


class _CollectSums(torch.autograd.Function):
    """Keys and energy for the first step, and slots; their gradients to those of keys, energy and values."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any, keys: Tensor, energy: Tensor, values: Tensor, num_steps: int, weights: list[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.weights = weights
        ctx.save_for_backward(energy)
        slots = values.new_empty(1).expand(num_steps, values.shape[0], values.shape[2])
        return keys.view_as(keys), energy.view_as(energy), slots

    @staticmethod
    @differentiable_once(LOOP)
    def backward(
        ctx: Any, keys_sum: Tensor | None, energy_grad: Tensor | None, context_grads: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        (energy,) = ctx.saved_tensors
        values_grad = None
        if context_grads is not None and ctx.needs_input_grad[2]:
            values_grad = outer_sum(torch.stack(ctx.weights), context_grads[: len(ctx.weights)])
        return None if keys_sum is None else keys_sum * energy, energy_grad, values_grad, None, None


class _AttendBySums(torch.autograd.Function):
    """One step; keys and energy are also outputs, unchanged, for the next step."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any, query: Tensor, slot: Tensor, keys: Tensor, energy: Tensor, values: Tensor, mask: PreparedMask
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        hidden = (keys + query.unsqueeze(1)).tanh_()
        weights = mask.softmax(hidden @ energy)
        ctx.shape = keys.shape
        ctx.save_for_backward(hidden, energy, values, weights)
        context = torch.bmm(weights.to(values.dtype).unsqueeze(1), values).squeeze(1)
        return context, weights, keys, energy

    @staticmethod
    @differentiable_once(LOOP)
    def backward(
        ctx: Any,
        context_grad: Tensor | None,
        weights_grad: Tensor | None,
        keys_sum: Tensor | None,
        energy_grad: Tensor | None,
    ) -> tuple[Tensor | None, ...]:
        if context_grad is None and weights_grad is None:
            return None, None, keys_sum, energy_grad, None, None
        hidden, energy, values, weights = ctx.saved_tensors
        grad = score_grad(weights, values, context_grad, weights_grad).to(hidden.dtype)
        # the last step of the loop is the first to come here, and makes the buffers
        keys_sum = hidden.new_zeros(ctx.shape) if keys_sum is None else keys_sum
        energy_grad = torch.zeros_like(energy) if energy_grad is None else energy_grad
        query_grad = add_gradients(grad, hidden, energy, keys_sum, energy_grad)
        return query_grad, context_grad, keys_sum, energy_grad, None, None


def score_grad(
    weights: Float[Tensor, "B K"],
    values: Float[Tensor, "B K V"],
    context_grad: Float[Tensor, "B V"] | None,
    weights_grad: Float[Tensor, "B K"] | None,
) -> Float[Tensor, "B K"]:
    """Gradient of the scores from those of the context and the weights: a (da - sum a da)."""
    grad = weights_grad
    if context_grad is not None:
        grad = torch.bmm(context_grad.unsqueeze(1), values.transpose(1, 2)).squeeze(1).to(weights.dtype)
        grad = grad if weights_grad is None else grad.add_(weights_grad)
    assert grad is not None, "autograd calls this with at least one gradient"
    return torch_private.softmax_backward(grad, weights)


def add_gradients(
    grad: Float[Tensor, "B K"],
    hidden: Float[Tensor, "B K H"],
    energy: Float[Tensor, " H"],
    keys_sum: Float[Tensor, "B K H"],
    energy_grad: Float[Tensor, " H"],
) -> Float[Tensor, "B H"]:
    """dq of one step of the additive score; its shares of the other two sums are added to the buffers in place."""
    energy_grad += (grad.flatten().unsqueeze(0) @ hidden.flatten(0, 1)).squeeze(0)
    slope = torch.addcmul(torch.ones((), dtype=hidden.dtype, device=hidden.device), hidden, hidden, value=-1)
    keys_sum.addcmul_(grad.unsqueeze(-1), slope)
    return torch.bmm(grad.unsqueeze(1), slope).squeeze(1) * energy
