"""One step of beam search, for all sources at once: which continuations live on, and which end here."""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int
from torch import Tensor

from regard.contracts import EOS, UNK
from regard.decoding.top import top

NEVER = float("-inf")


@dataclass(frozen=True, kw_only=True)
class Extended:
    """The live hypotheses of n sources after a step, best first, and what <eos> made of those before it.

    `parents` are places among the hypotheses before the step. `ends` is -inf where <eos> was not good enough.
    """

    tokens: Int[Tensor, "n size"]
    parents: Int[Tensor, "n size"]
    live: Float[Tensor, "n size"]
    ends: Float[Tensor, "n width"]


def extend(logits: Float[Tensor, "rows vocab"], live: Float[Tensor, "n width"], size: int) -> Extended:
    """The `size` best continuations of each source's live hypotheses, which have these log-probabilities.

    <eos> ends a hypothesis where it is among the `size` best of all. <pad> and <bos> are never said.
    """
    sources, width = live.shape
    if logits.shape[1] <= UNK:
        raise ValueError(f"the model knows {logits.shape[1]} tokens, expected the four marks at least.")
    # faster than logsumexp, which makes several passes
    log_probs = logits.log_softmax(dim=1, dtype=torch.promote_types(logits.dtype, torch.float32))
    values, columns = top(log_probs[:, UNK:], min(size, log_probs.shape[1] - UNK))
    each = values.shape[1]
    totals = (values.view(sources, width, each) + live[:, :, None]).flatten(1)
    ends = log_probs[:, EOS].view(sources, width) + live
    # a small vocabulary has fewer continuations than the beam has places
    if width * each < size:
        totals = F.pad(totals, (0, size - width * each), value=NEVER)
    totals, picked = totals.topk(size, dim=1)
    picked = picked.clamp_(max=width * each - 1)
    worst = torch.cat([totals, ends], dim=1).topk(size, dim=1).values[:, -1:]
    return Extended(
        tokens=columns.view(sources, width * each).gather(1, picked) + UNK,
        parents=picked.div(each, rounding_mode="floor"),
        live=totals,
        ends=ends.masked_fill(ends < worst, NEVER),
    )
