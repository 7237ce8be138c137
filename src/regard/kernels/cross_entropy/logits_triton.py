"""The Triton kernel of the loss: a token's logits in, its loss and their gradient out, in the logits' own place."""

from regard.kernels.triton_support import constexpr, jit, tl


@jit
def loss_kernel(
    logits, labels, losses, num_words, ignored, smoothing, GRADIENT: constexpr, SMOOTH: constexpr, BLOCK: constexpr
):
    """Twice over the words: the second time they are still in the cache."""
    token = tl.program_id(0).to(tl.int64)
    label = tl.load(labels + token)
    row, word = logits + token * num_words, tl.arange(0, BLOCK)
    if label == ignored:
        tl.store(losses + token, 0.0)
        if GRADIENT:
            for first in range(0, num_words, BLOCK):
                tl.store(row + first + word, tl.zeros([BLOCK], logits.dtype.element_ty), mask=first + word < num_words)
    else:
        # each lane has its own maximum until the end; words that are not there weigh nothing
        most, mass = tl.full([BLOCK], -3.4028234e38, tl.float32), tl.zeros([BLOCK], tl.float32)
        total = tl.zeros([BLOCK], tl.float32)
        for first in range(0, num_words, BLOCK):
            there = first + word < num_words
            logit = tl.load(row + first + word, mask=there, other=float("-inf")).to(tl.float32)
            new = tl.maximum(most, logit)
            mass = mass * tl.exp(most - new) + tl.exp(logit - new)
            most = new
            if SMOOTH:
                total += tl.where(there, logit, 0.0)
        largest = tl.max(most, 0)
        normaliser = largest + tl.log(tl.sum(mass * tl.exp(most - largest), 0))
        # a label that is no word has no logit, and no loss that is a number
        is_word = (label >= 0) & (label < num_words)
        chosen = tl.load(row + label, mask=is_word, other=float("nan")).to(tl.float32)
        loss = normaliser - (1.0 - smoothing) * chosen
        if SMOOTH:
            loss -= smoothing / num_words * tl.sum(total, 0)
        tl.store(losses + token, loss)
        if GRADIENT:
            # what is loaded above must not be written over before all have read it
            tl.debug_barrier()
            for first in range(0, num_words, BLOCK):
                there = first + word < num_words
                logit = tl.load(row + first + word, mask=there, other=0.0).to(tl.float32)
                grad = tl.exp(logit - normaliser) - smoothing / num_words
                grad -= tl.where(first + word == label, 1.0 - smoothing, 0.0)
                tl.store(row + first + word, grad.to(logits.dtype.element_ty), mask=there)
