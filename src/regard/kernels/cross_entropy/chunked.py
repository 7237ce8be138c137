"""Cross-entropy of a linear output layer in chunks of tokens: loss and gradients without all logits in memory.

    loss = - sum_n sum_v q_n(v) log p_n(v),   dloss/dlogits = p - q,   q_n(v) = (1 - e) [v = y_n] + e / V

The gradient p - q of a chunk needs nothing from other chunks, so the forward pass computes loss and gradients together,
chunk by chunk. The backward pass only scales them. What is stored has the size of the features and of the weight. On a
CPU a chunk's logits and their gradient stay in the cache; on CUDA one Triton kernel computes both.

Departs from plain autograd: the gradients cannot be differentiated again.
"""

from typing import Any

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import torch_private
from regard.kernels.autograd import differentiable_once, is_concrete, is_tracing, product_dtype
from regard.kernels.cross_entropy.logits_triton import loss_kernel
from regard.kernels.cross_entropy.reference import plain_cross_entropy
from regard.kernels.triton_support import launch, power_of_two, serves

MAX_BLOCK = 2048
"""Words that a program of the kernel holds in registers."""
CHUNK_ELEMENTS = {"cpu": 1 << 22, "cuda": 1 << 27}
"""Logits of a chunk: 16 MiB in a CPU's cache, 256 MiB of bfloat16 on a GPU; smaller products run slower."""
SMALLEST_CHUNK = 16
"""Tokens of a chunk at least, however large the vocabulary: smaller matrix products run slower."""


def loss_and_gradient(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """The summed loss, and p - q; the logits may be overwritten."""
    is_supported = serves(logits) and logits.dtype.itemsize <= 4
    run = loss_by_kernel if is_supported else loss_by_torch
    return run(logits, labels, ignored, label_smoothing, gradient=gradient)


def loss_by_torch(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """The formula in torch operations."""
    dtype, vocab_size = logits.dtype, logits.shape[1]
    wide = torch.float32 if dtype.itemsize < 4 else dtype
    log_probs = torch.log_softmax(logits, dim=-1, dtype=wide)
    # `where` instead of a product: a row without a label may hold NaN and must count nothing
    has_label = labels != ignored
    words = labels.where(has_label, 0)[:, None]
    label_log_probs = log_probs.gather(1, words)[:, 0]
    loss = -(1.0 - label_smoothing) * label_log_probs.where(has_label, 0.0).sum()
    if label_smoothing:
        loss = loss - label_smoothing / vocab_size * log_probs.sum(-1).where(has_label, 0.0).sum()
    if not gradient:
        return loss, None
    # in place: the probabilities take the memory of their logarithms
    grad = log_probs.exp_()
    if label_smoothing:
        grad -= label_smoothing / vocab_size
    grad.scatter_add_(1, words, torch.full_like(label_log_probs, label_smoothing - 1.0)[:, None])
    # skip the pass over all gradients where every row has a label and that is cheap to find out
    if not (is_concrete(labels) and bool(has_label.all())):
        grad.masked_fill_(~has_label[:, None], 0.0)
    return loss, grad.to(dtype)


def loss_by_kernel(
    logits: Float[Tensor, "N vocab"], labels: Int[Tensor, " N"], ignored: int, label_smoothing: float, *, gradient: bool
) -> tuple[Float[Tensor, ""], Float[Tensor, "N vocab"] | None]:
    """One program per token; the gradient overwrites the logits."""
    num_tokens, num_words = logits.shape
    losses = torch.empty(num_tokens, dtype=torch.float32, device=logits.device)
    block = min(power_of_two(num_words), MAX_BLOCK)
    alignments = logits.data_ptr() % 16, labels.data_ptr() % 16
    kind = (logits.device, logits.dtype, labels.dtype, *alignments, num_words, ignored)
    constants = {"GRADIENT": gradient, "SMOOTH": label_smoothing > 0, "BLOCK": block}
    with torch.cuda.device_of(logits):
        # 8 words per thread, in 256 threads at most
        launch(
            loss_kernel, (num_tokens, 1, 1), (logits, labels, losses, num_words, ignored, label_smoothing), constants,
            kind=kind, num_warps=max(1, block // 256),
        )  # fmt: skip
    return losses.sum(), logits if gradient else None


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

    In a compiler's graph, and in float16, it is the plain loss: float16 gradients vanish unless the loss is scaled
    before they are computed, and here they are computed in the forward pass.
    """
    check_arguments(features, weight, labels, label_smoothing)
    dtype = product_dtype(features)
    if is_tracing() or dtype == torch.float16:
        return plain_cross_entropy(features, weight, bias, labels, ignored=ignored, label_smoothing=label_smoothing)
    features, labels = features.flatten(0, -2), labels.flatten().long().contiguous()
    if features.device.type == "cpu":
        # drop tokens without a label before the product; on CUDA their number would need a synchronisation
        indices = (labels != ignored).nonzero()[:, 0]
        if indices.shape[0] < labels.shape[0]:
            features, labels = features[indices], labels[indices]
    features, weight = features.to(dtype), weight.to(dtype)
    bias = None if bias is None else bias.to(dtype)
    # autocast off: the cast is done, and inside it would convert the chunks one by one
    with torch.autocast(features.device.type, enabled=False):
        return _Chunked.apply(features, weight, bias, labels, ignored, float(label_smoothing), torch.is_grad_enabled())


def check_arguments(features: Tensor, weight: Tensor, labels: Tensor, label_smoothing: float) -> None:
    """Refuse shapes that would fail inside a kernel, and a label smoothing that would give a wrong loss."""
    if features.ndim < 1 or weight.ndim != 2 or features.shape[-1] != weight.shape[1]:
        raise ValueError(
            f"features have shape {tuple(features.shape)} and the weight {tuple(weight.shape)}, expected "
            f"(.., size) and (vocabulary, size). Is the weight transposed?"
        )
    if labels.shape != features.shape[:-1]:
        raise ValueError(
            f"labels have shape {tuple(labels.shape)}, expected one for each feature vector, "
            f"{tuple(features.shape[:-1])}."
        )
    if not 0.0 <= label_smoothing <= 1.0:
        raise ValueError(f"label_smoothing is {label_smoothing}, expected a share between 0 and 1, such as 0.1.")


class _Chunked(torch.autograd.Function):
    """The loss; its gradients are computed in the forward pass, those that are needed."""

    @staticmethod
    def forward(  # noqa: PLR0917 - autograd passes arguments by position
        ctx: Any,
        features: Tensor,
        weight: Tensor,
        bias: Tensor | None,
        labels: Tensor,
        ignored: int,
        label_smoothing: float,
        grad_enabled: bool,
    ) -> Tensor:
        # needs_input_grad is set under no_grad too
        needs_grad = [grad_enabled and each for each in ctx.needs_input_grad[:3]]
        chunk_size = tokens_per_chunk(weight)
        total = features.new_zeros((), dtype=torch.float32 if features.dtype.itemsize < 8 else features.dtype)
        feature_grad = torch.empty_like(features) if needs_grad[0] else None
        # float32: each chunk adds to all of the weight's gradient, and half precision would lose small terms
        weight_grad = torch.zeros_like(weight, dtype=total.dtype) if needs_grad[1] else None
        bias_grad = torch.zeros_like(bias, dtype=total.dtype) if needs_grad[2] and bias is not None else None
        # only the logits of one chunk exist at a time
        for first in range(0, features.shape[0], chunk_size):
            chunk = slice(first, first + chunk_size)
            logits = F.linear(features[chunk], weight, bias)
            loss, grad = loss_and_gradient(logits, labels[chunk], ignored, label_smoothing, gradient=any(needs_grad))
            total += loss
            # each token is in one chunk: its gradient is written once, in the features' type
            if feature_grad is not None and grad is not None:
                feature_grad[chunk] = grad @ weight
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
        products = (None if grad is None else grad.mul(grads[0]) for grad in ctx.saved_tensors)
        feature_grad, weight_grad, bias_grad = (None if grad is None else grad.to(ctx.dtype) for grad in products)
        return feature_grad, weight_grad, bias_grad, None, None, None, None


def tokens_per_chunk(weight: Float[Tensor, "vocab size"]) -> int:
    """Tokens of a chunk: a multiple of SMALLEST_CHUNK, which matrix products take at once."""
    max_tokens = CHUNK_ELEMENTS.get(weight.device.type, CHUNK_ELEMENTS["cuda"]) // weight.shape[0]
    return max(max_tokens // SMALLEST_CHUNK, 1) * SMALLEST_CHUNK


def add_product(total: Float[Tensor, "vocab size"], grad: Float[Tensor, "N vocab"], features: Tensor) -> None:
    """Add grad^T features to the total, in the total's precision."""
    if grad.dtype == total.dtype:
        total.addmm_(grad.t(), features)
    elif total.device.type == "cuda" and torch_private.multiplies_into_float32():
        # newer torch: half precision inputs with a float32 result, without a copy of either
        torch.addmm(total, grad.t(), features, out_dtype=total.dtype, out=total)
    else:
        total += grad.t() @ features
