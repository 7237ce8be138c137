"""Logits to loss and to the gradient of the loss, p - q, together: on CUDA in one kernel, elsewhere as torch has it."""

import torch
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.cross_entropy.logits_triton import loss_kernel
from regard.kernels.tiles import INSTALLED, launch, power_of_two

LARGEST_BLOCK = 2048
"""Words that a program has in hand at once."""


def loss_and_gradient(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """The summed loss, and p - q; the logits are used up."""
    serves = logits.device.type == "cuda" and INSTALLED and logits.dtype.itemsize <= 4
    return (by_kernel if serves else by_torch)(logits, labels, ignored, label_smoothing, gradient=gradient)


def by_torch(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """The formula, in place."""
    dtype, vocab_size = logits.dtype, logits.shape[1]
    wide = torch.float32 if dtype.itemsize < 4 else dtype
    log_probs = torch.log_softmax(logits, dim=-1, dtype=wide)
    is_real = labels != ignored
    real, words = is_real.to(wide), labels.where(is_real, 0)[:, None]
    picked = log_probs.gather(1, words)[:, 0]
    loss = -(1.0 - label_smoothing) * (picked * real).sum()
    if label_smoothing:
        loss = loss - label_smoothing / vocab_size * (log_probs.sum(-1) * real).sum()
    if not gradient:
        return loss, None
    grad = log_probs.exp_()
    if label_smoothing:
        grad -= label_smoothing / vocab_size
    grad.scatter_add_(1, words, torch.full_like(picked, label_smoothing - 1.0)[:, None])
    return loss, grad.mul_(real[:, None]).to(dtype)


def by_kernel(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """A program for each token; the gradient lies where the logits were."""
    num_tokens, num_words = logits.shape
    losses = torch.empty(num_tokens, dtype=torch.float32, device=logits.device)
    block = min(power_of_two(num_words), LARGEST_BLOCK)
    kind = (logits.device, logits.dtype, labels.dtype, labels.data_ptr() % 16, num_words, ignored)
    constants = {"GRADIENT": gradient, "SMOOTH": label_smoothing > 0, "BLOCK": block}
    with torch.cuda.device_of(logits):
        launch(
            loss_kernel, (num_tokens, 1, 1), (logits, labels, losses, num_words, ignored, label_smoothing), constants,
            kind=(*kind, *constants.values()), num_warps=max(1, block // 256),
        )  # fmt: skip
    return losses.sum(), logits if gradient else None
