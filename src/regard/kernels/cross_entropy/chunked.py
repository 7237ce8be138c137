"""Cross-entropy of a linear readout some tokens at a time: loss and gradient without all logits in memory.

    loss = sum_n -log softmax(W x_n + b)[label_n],   d loss / d logits = p - q,   q: the (smoothed) labels

The gradient needs nothing from later layers, so each chunk's loss and gradients are computed together, in the forward
pass: on CUDA by one kernel, elsewhere by torch. On a CPU the logits of a chunk stay in the cache. What is saved for the
backward pass has the sizes of the features and the weight.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.kernels.autograd import differentiable_once, is_concrete, is_tracing, product_dtype
from regard.kernels.cross_entropy.logits_triton import loss_kernel
from regard.kernels.cross_entropy.reference import plain_cross_entropy
from regard.kernels.triton_support import launch, power_of_two, serves

LARGEST_BLOCK = 2048
"""Columns of the vocabulary that a program loads at once."""


def loss_and_gradient(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """The summed loss, and p - q; the logits may be overwritten."""
    is_served = serves(logits) and logits.dtype.itemsize <= 4
    return (by_kernel if is_served else by_torch)(logits, labels, ignored, label_smoothing, gradient=gradient)


def by_torch(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """The formula."""
    dtype, vocab_size = logits.dtype, logits.shape[1]
    wide = torch.float32 if dtype.itemsize < 4 else dtype
    log_probs = torch.log_softmax(logits, dim=-1, dtype=wide)
    # a position without a label counts nothing, even if its logits are NaN
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
    if not (is_concrete(labels) and bool(real.all())):
        grad.masked_fill_(~real[:, None], 0.0)
    return loss, grad.to(dtype)


def by_kernel(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """One program for each token; the gradient overwrites the logits."""
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


CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Logits held at once: 16 MiB in a CPU's cache, 256 MiB of bfloat16 on a GPU; fewer make slower products."""
SMALLEST_CHUNK = 16
"""Tokens: with fewer, matrix products are slow, however large the vocabulary is."""


def chunked_cross_entropy(
    features: Float[Tensor, "*B size"],
    weight: Float[Tensor, "vocab size"],
    bias: Float[Tensor, " vocab"] | None,
    labels: Int[Tensor, "*B"],
    *,
    ignored: int,
    label_smoothing: float = 0.0,
) -> Float[Tensor, ""]:
    """Summed over the labels that are not `ignored`; under autocast the products are in its precision.

    In a compiler's graph, and in float16, whose gradients vanish unless they are scaled before they are formed, this is
    the plain loss.
    """
    check(features, weight, labels, label_smoothing)
    dtype = product_dtype(features)
    if is_tracing() or dtype == torch.float16:
        return plain_cross_entropy(features, weight, bias, labels, ignored=ignored, label_smoothing=label_smoothing)
    features, labels = features.flatten(0, -2), labels.flatten().long().contiguous()
    if features.device.type == "cpu":
        # reading values is free on a CPU, and positions without a label need no product
        real = (labels != ignored).nonzero()[:, 0]
        if real.shape[0] < labels.shape[0]:
            features, labels = features[real], labels[real]
    features, weight = features.to(dtype), weight.to(dtype)
    bias = None if bias is None else bias.to(dtype)
    with torch.autocast(features.device.type, enabled=False):
        return _Chunked.apply(features, weight, bias, labels, ignored, float(label_smoothing), torch.is_grad_enabled())


def check(features: Tensor, weight: Tensor, labels: Tensor, label_smoothing: float) -> None:
    """Errors with the shapes, in place of a kernel's error or a wrong loss."""
    if features.ndim < 1 or weight.ndim != 2 or features.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"features have shape {tuple(features.shape)} and the weight {tuple(weight.shape)}, expected "
            f"(.., size) and (vocabulary, size)."
        )
    if labels.shape != features.shape[:-1]:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)}, expected one for each feature vector, "
            f"{tuple(features.shape[:-1])}."
        )
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing is {label_smoothing}, expected a share between 0 and 1.")


class _Chunked(torch.autograd.Function):
    """Gradients are computed in the forward pass, if any is needed."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        ignored: int,
        label_smoothing: float,
        learns: bool,
    ) -> Tensor:
        # under no_grad, needs_input_grad still says what would be needed
        needed = [learns and each for each in ctx.needs_input_grad[:3]]
        rows = rows_of(weight)
        total = features.new_zeros((), dtype=torch.float32 if features.dtype.itemsize < 8 else features.dtype)
        feature_grad = torch.empty_like(features) if needed[0] else None
        weight_grad = torch.zeros_like(weight, dtype=total.dtype) if needed[1] else None
        bias_grad = torch.zeros_like(bias, dtype=total.dtype) if needed[2] and bias is not None else None
        for first in range(0, features.shape[0], rows):
            chunk = slice(first, first + rows)
            loss, grad = loss_and_gradient(
                F.linear(features[chunk], weight, bias), labels[chunk], ignored, label_smoothing, gradient=any(needed)
            )
            total += loss
            if feature_grad is not None and grad is not None:
                feature_grad[chunk] = F.linear(grad, weight.t())
            if weight_grad is not None and grad is not None:
                add_product(weight_grad, grad, features[chunk])
            if bias_grad is not None and grad is not None:
                bias_grad += grad.sum(0, dtype=bias_grad.dtype)
        ctx.save_for_backward(feature_grad, weight_grad, bias_grad)
        ctx.dtype = weight.dtype
        return total

    @staticmethod
    @differentiable_once("Take plain_cross_entropy, beside the fused loss in regard.kernels.cross_entropy.")
    def backward(ctx: Any, *grads: Tensor) -> tuple[Tensor | None, ...]:
        scaled = (None if saved is None else saved.mul(grads[0]) for saved in ctx.saved_tensors)
        feature_grad, weight_grad, bias_grad = (None if grad is None else grad.to(ctx.dtype) for grad in scaled)
        return feature_grad, weight_grad, bias_grad, None, None, None, None


def rows_of(weight: Float[Tensor, "vocab size"]) -> int:
    """Tokens in a chunk, a multiple of the smallest chunk."""
    most = CHUNK_ELEMENTS.get(weight.device.type, CHUNK_ELEMENTS["cuda"]) // weight.shape[0]
    return max(most // SMALLEST_CHUNK, 1) * SMALLEST_CHUNK


def add_product(total: Float[Tensor, "vocab size"], grad: Float[Tensor, "N vocab"], features: Tensor) -> None:
    """total += grad^T features, in the total's own precision."""
    if grad.dtype == total.dtype:
        total.addmm_(grad.t(), features)
    elif total.device.type == "cuda" and hasattr(torch.ops.aten.addmm, "dtype_out"):
        torch.addmm(total, grad.t(), features, out_dtype=total.dtype, out=total)
    else:
        total += grad.t() @ features
