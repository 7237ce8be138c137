"""Logits to loss and to the gradient of the loss, p - q, together: on CUDA in one kernel, elsewhere as torch has it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.cross_entropy.logits_triton import loss_kernel
from regard.kernels.tiles import launch, power_of_two, serves
from regard.kernels.values import can_look

LARGEST_BLOCK = 2048
"""Words that a program has in hand at once."""


def loss_and_gradient(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """The summed loss, and p - q; the logits are used up."""
    is_served = serves(logits) and logits.dtype.itemsize <= 4
    return (by_kernel if is_served else by_torch)(logits, labels, ignored, label_smoothing, gradient=gradient)


def by_torch(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """The formula."""
    dtype, vocab_size = logits.dtype, logits.shape[1]
    wide = torch.float32 if dtype.itemsize < 4 else dtype
    log_probs = torch.log_softmax(logits, dim=-1, dtype=wide)
    # where there is no label nothing counts, be it a number or not
    real = labels != ignored
    words = labels.where(real, 0)[:, None]
    picked = log_probs.gather(1, words)[:, 0]
    loss = -(1.0 - label_smoothing) * picked.where(real, 0.0).sum()
    if label_smoothing:
        loss = loss - label_smoothing / vocab_size * log_probs.sum(-1).where(real, 0.0).sum()
    if not gradient:
        return loss, None
    grad = log_probs.exp_()
    if label_smoothing:
        grad -= label_smoothing / vocab_size
    grad.scatter_add_(1, words, torch.full_like(picked, label_smoothing - 1.0)[:, None])
    if not (can_look(labels) and bool(real.all())):
        grad.masked_fill_(~real[:, None], 0.0)
    return loss, grad.to(dtype)


def by_kernel(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """A program for each token; the gradient lies where the logits were."""
    num_tokens, num_words = logits.shape
    losses = torch.empty(num_tokens, dtype=torch.float32, device=logits.device)
    block = min(power_of_two(num_words), LARGEST_BLOCK)
    alignments = logits.data_ptr() % 16, labels.data_ptr() % 16
    kind = (logits.device, logits.dtype, labels.dtype, *alignments, num_words, ignored)
    constants = {"GRADIENT": gradient, "SMOOTH": label_smoothing > 0, "BLOCK": block}
    with torch.cuda.device_of(logits):
        launch(
            loss_kernel, (num_tokens, 1, 1), (logits, labels, losses, num_words, ignored, label_smoothing), constants,
            kind=kind, num_warps=max(1, block // 256),
        )  # fmt: skip
    return losses.sum(), logits if gradient else None
