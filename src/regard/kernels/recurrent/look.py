"""One memory read at every step of a loop; what it learns from all steps is formed at once where that is a product.

    scores_t = q_t . K   or   v . tanh(q_t + K),    a_t = softmax(scores_t) over what the mask allows,    c_t = a_t V
    dV = [a_1 .. a_T]^T [dc_1 .. dc_T],    dK = [ds_1 .. ds_T]^T [q_1 .. q_T] for dots

As in repeated.py, each step's gradients reach one node through slots. Keys under a tanh have no such product: their
gradient is added up on the way back, in one buffer that goes from each step to the step before. Later steps may have
fewer rows than the memory: the first ones.

Shapes: B rows, K keys, V size of the values, H hidden units of the comparison, T steps.
"""

from collections.abc import Sequence
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from regard.kernels.autograd import LOOP, differentiable_once


class ReadyMask:
    """A mask made ready once: 0 or -inf to add to scores, and 1 or 0 for rows with something to read or nothing."""

    def __init__(self, mask: Bool[Tensor, "B K"] | None) -> None:
        self.bias = self.some = None
        if mask is not None:
            some = mask.any(dim=-1, keepdim=True)
            # a row of -inf alone would be NaN: its scores stay, and its weights become 0
            self.bias = torch.zeros(mask.shape, dtype=torch.float32, device=mask.device).masked_fill_(
                some & ~mask, float("-inf")
            )
            self.some = some.to(self.bias.dtype)

    def weigh(self, scores: Float[Tensor, "n K"]) -> Float[Tensor, "n K"]:
        """Softmax over the allowed keys of the first rows, in at least float32."""
        scores = scores.to(torch.promote_types(scores.dtype, torch.float32))
        if self.bias is None or self.some is None:
            return torch.softmax(scores, dim=-1)
        rows = len(scores)
        return torch.softmax(scores + self.bias[:rows], dim=-1).mul_(self.some[:rows])


def score_grad(
    weights: Float[Tensor, "B K"],
    values: Float[Tensor, "B K V"],
    context_grad: Float[Tensor, "B V"] | None,
    weights_grad: Float[Tensor, "B K"] | None,
) -> Float[Tensor, "B K"]:
    """What context and weights say to the scores: a (da - sum a da)."""
    grad = weights_grad
    if context_grad is not None:
        # transposed values on the right: the other way round is a third as fast on a CPU
        grad = torch.bmm(context_grad.unsqueeze(1), values.transpose(1, 2)).squeeze(1).to(weights.dtype)
        grad = grad if weights_grad is None else grad.add_(weights_grad)
    return torch.ops.aten._softmax_backward_data(grad, weights, -1, weights.dtype)


class DotLook:
    """A memory compared by dot products, for one loop with so many rows at each step."""

    def __init__(
        self,
        keys: Float[Tensor, "B K H"],
        values: Float[Tensor, "B K V"],
        mask: Bool[Tensor, "B K"] | None,
        *,
        sizes: Sequence[int],
    ) -> None:
        self.keys, self.values, self.mask = keys.detach(), values.detach(), ReadyMask(mask)
        self.asked: list[Tensor] = []
        self.weights: list[Tensor] = []
        scores, contexts = _GatherDots.apply(keys, values, sum(sizes), self.asked, self.weights)
        self.slots = list(zip(scores.split(list(sizes)), contexts.split(list(sizes)), strict=True))

    def __call__(self, query: Float[Tensor, "n H"]) -> tuple[Float[Tensor, "n V"], Float[Tensor, "n K"]]:
        """Context and weights of the next step."""
        slots = self.slots[len(self.asked)]
        query = query.to(self.keys.dtype)
        context, weights = _ReadDots.apply(query, *slots, self)
        self.asked.append(query.detach())
        self.weights.append(weights.detach())
        return context, weights


class _GatherDots(torch.autograd.Function):
    """Keys and values to empty slots; the slots' gradients to theirs."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any, keys: Tensor, values: Tensor, num_rows: int, asked: list[Tensor], weights: list[Tensor]
    ) -> tuple[Tensor, Tensor]:
        ctx.asked, ctx.weights = asked, weights
        _, num_keys, size = values.shape
        wide = torch.promote_types(keys.dtype, torch.float32)
        scores = keys.new_empty(1, dtype=wide).expand(num_rows, num_keys)
        return scores, values.new_empty(1).expand(num_rows, size)

    @staticmethod
    @differentiable_once(LOOP)
    def backward(ctx: Any, scores: Tensor, contexts: Tensor) -> tuple[Tensor | None, ...]:
        needed = ctx.needs_input_grad
        return (
            outer_sum(pieces_of(scores, ctx.asked), ctx.asked) if needed[0] else None,
            outer_sum(ctx.weights, pieces_of(contexts, ctx.weights)) if needed[1] else None,
            *[None] * 3,
        )


def pieces_of(joined: Float[Tensor, "N size"], like: list[Tensor]) -> list[Tensor]:
    """The steps that were taken, one by one."""
    sizes = [len(piece) for piece in like]
    return list(joined[: sum(sizes)].split(sizes))


def outer_sum(left: list[Tensor], right: list[Tensor]) -> Float[Tensor, "B K size"]:
    """sum_t left_t right_t^T, for every row."""
    return torch.bmm(beside(left).transpose(1, 2).to(right[0].dtype), beside(right))


def beside(steps: list[Tensor]) -> Float[Tensor, "B T size"]:
    """All steps of a row side by side; zeros where it took none any more."""
    if len(steps[-1]) == len(steps[0]):
        return torch.stack(steps, dim=1)
    rows = steps[0].new_zeros(len(steps[0]), len(steps), steps[0].shape[1])
    for place, step in enumerate(steps):
        rows[: len(step), place] = step
    return rows


class _ReadDots(torch.autograd.Function):
    """One read."""

    @staticmethod
    def forward(
        ctx: Any, query: Tensor, score_slot: Tensor, context_slot: Tensor, look: DotLook
    ) -> tuple[Tensor, Tensor]:
        ctx.set_materialize_grads(False)
        keys, values = look.keys[: len(query)], look.values[: len(query)]
        weights = look.mask.weigh(torch.bmm(query.unsqueeze(1), keys.transpose(1, 2)).squeeze(1))
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
