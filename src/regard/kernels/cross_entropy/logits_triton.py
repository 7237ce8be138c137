"""The Triton kernel of the loss: from a token's logits to its loss and their gradient, which overwrites the logits.

loss = log sum_v exp(x_v) - (1 - e) x_y - e / V sum_v x_v,   dloss/dx_v = p_v - (1 - e) [v = y] - e / V
"""

from regard.kernels.triton_support import constexpr, jit, tl


@jit
def loss_kernel(
    logits, labels, losses, num_words, ignored, smoothing, GRADIENT: constexpr, SMOOTH: constexpr, BLOCK: constexpr
):
    """One program per token, with two passes over the vocabulary: in the second, the logits are still in the cache."""
    # 64 bits: tokens times vocabulary exceed 2^31
    token = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + token)
    row, word = logits + token * num_words, tl.arange(0, BLOCK)
    if label == ignored:
        tl.store(losses + token, 0.0)
        if GRADIENT:
            for first in range(0, num_words, BLOCK):
                tl.store(row + first + word, tl.zeros([BLOCK], logits.dtype.element_ty), mask=first + word < num_words)
    else:
        # each lane has a running maximum and sum of its own, merged after the loop: no reduction in each iteration.
        # The maximum starts at the least float, not at -inf, because -inf - (-inf) is NaN in lanes past the end
        peak, mass = tl.full([BLOCK], -3.4028234e38, tl.float32), tl.zeros([BLOCK], tl.float32)
        total = tl.zeros([BLOCK], tl.float32)
        for first in range(0, num_words, BLOCK):
            valid = first + word < num_words
            # past the end of the vocabulary exp(-inf) adds nothing
            logit = tl.load(row + first + word, mask=valid, other=float("-inf")).to(tl.float32)
            new_peak = tl.maximum(peak, logit)
            mass = mass * tl.exp(peak - new_peak) + tl.exp(logit - new_peak)
            peak = new_peak
            if SMOOTH:
                total += tl.where(valid, logit, 0.0)
        largest = tl.max(peak, 0)
        normaliser = largest + tl.log(tl.sum(mass * tl.exp(peak - largest), 0))
        # a label outside the vocabulary must not be loaded; its loss is NaN
        is_word = (label >= 0) & (label < num_words)
        label_logit = tl.load(row + label, mask=is_word, other=float("nan")).to(tl.float32)
        loss = normaliser - (1.0 - smoothing) * label_logit
        if SMOOTH:
            loss -= smoothing / num_words * tl.sum(total, 0)
        tl.store(losses + token, loss)
        if GRADIENT:
            # all threads must have loaded the label's logit before one of them overwrites it
            tl.debug_barrier()
            for first in range(0, num_words, BLOCK):
                valid = first + word < num_words
                logit = tl.load(row + first + word, mask=valid, other=0.0).to(tl.float32)
                grad = tl.exp(logit - normaliser) - smoothing / num_words
                grad -= tl.where(first + word == label, 1.0 - smoothing, 0.0)
                tl.store(row + first + word, grad.to(logits.dtype.element_ty), mask=valid)
