"""One memory read at every step of a loop, compared by the additive score.

    h_t = tanh(q_t + K),   a_t = softmax(h_t v),   c_t = a_t V
    dq_t = v * sum_k ds_tk (1 - h_tk^2),   dK = v * sum_t ds_t (1 - h_t^2),   dv = sum_t ds_t h_t

The last two sums are kept in buffers that travel back from step to step as the gradients of two tokens, the keys and
the energy; dK is multiplied by v once, at the end. dV is one product, as in look.py.

Shapes: B rows, K keys, V size of the values, H hidden units of the comparison, T steps.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.autograd import LOOP, differentiable_once
from regard.kernels.recurrent.look import ReadyMask, outer_sum, pieces_of, score_grad


class AdditiveLook:
    """Projected keys, and the values at their places, for one loop with so many rows at each step."""

    def __init__(
        self,
        keys: Float[Tensor, "B K H"],
        energy: Float[Tensor, " H"],
        values: Float[Tensor, "B K V"],
        mask: Bool[Tensor, "B K"] | None,
        *,
        sizes: Sequence[int],
    ) -> None:
        self.values, self.mask = values.detach(), ReadyMask(mask)
        self.weights: list[Tensor] = []
        self.keys, self.energy, slots = _Open.apply(keys, energy.to(keys.dtype), values, sum(sizes), self.weights)
        self.slots = slots.split(list(sizes))

    def __call__(self, query: Float[Tensor, "n H"]) -> tuple[Float[Tensor, "n V"], Float[Tensor, "n K"]]:
        """Context and weights of the next step."""
        slot = self.slots[len(self.weights)]
        query = query.to(self.keys.dtype)
        context, weights, self.keys, self.energy = _Read.apply(
            query, slot, self.keys, self.energy, self.values, self.mask
        )
        self.weights.append(weights.detach())
        return context, weights


class _Open(torch.autograd.Function):
    """The first tokens and the slots; what they bring back is the gradient of keys, energy and values."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any, keys: Tensor, energy: Tensor, values: Tensor, num_rows: int, weights: list[Tensor]
    ) -> tuple[Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        ctx.weights = weights
        ctx.save_for_backward(energy)
        slots = values.new_empty(1).expand(num_rows, values.shape[2])
        return keys.view_as(keys), energy.view_as(energy), slots

    @staticmethod
    @differentiable_once(LOOP)
    def backward(
        ctx: Any, keys_sum: Tensor | None, energy_grad: Tensor | None, contexts: Tensor | None
    ) -> tuple[Tensor | None, ...]:
        (energy,) = ctx.saved_tensors
        values_grad = None
        if contexts is not None and ctx.needs_input_grad[2]:
            values_grad = outer_sum(ctx.weights, pieces_of(contexts, ctx.weights))
        return None if keys_sum is None else keys_sum * energy, energy_grad, values_grad, None, None


class _Read(torch.autograd.Function):
    """One read; keys and energy go through it untouched, to be read by the next."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any, query: Tensor, slot: Tensor, keys: Tensor, energy: Tensor, values: Tensor, mask: ReadyMask
    ) -> tuple[Tensor, Tensor, Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        values = values[: len(query)]
        hidden = (keys[: len(query)] + query.unsqueeze(1)).tanh_()
        weights = mask.weigh(hidden @ energy)
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
        keys_sum = hidden.new_zeros(ctx.shape) if keys_sum is None else keys_sum
        energy_grad = torch.zeros_like(energy) if energy_grad is None else energy_grad
        query_grad = add_up(grad, hidden, energy, keys_sum[: len(grad)], energy_grad)
        return query_grad, context_grad, keys_sum, energy_grad, None, None


def add_up(
    grad: Float[Tensor, "B K"],
    hidden: Float[Tensor, "B K H"],
    energy: Float[Tensor, " H"],
    keys_sum: Float[Tensor, "B K H"],
    energy_grad: Float[Tensor, " H"],
) -> Float[Tensor, "B H"]:
    """dq of one step; the buffers take the step's share of the other two sums."""
    energy_grad += (grad.flatten().unsqueeze(0) @ hidden.flatten(0, 1)).squeeze(0)
    slope = torch.addcmul(torch.ones((), dtype=hidden.dtype, device=hidden.device), hidden, hidden, value=-1)
    keys_sum.addcmul_(grad.unsqueeze(-1), slope)
    return torch.bmm(grad.unsqueeze(1), slope).squeeze(1) * energy
