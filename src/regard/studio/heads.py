"""All heads of a look in figures and thumbnails, and what happens without one.

Shapes: H heads, Q queries, K keys.
"""

from functools import partial

import torch
from jaxtyping import Float
from torch import Tensor

from regard.attention import AttentionMap
from regard.studio.binary import thumbnail
from regard.studio.errors import MissingError, RefusedError
from regard.studio.kept import Kept
from regard.studio.looks import answer_again, first_answer
from regard.studio.schema import Ablated, AblateRequest, HeadCard, Heads
from regard.studio.swap import changed, entropy

THUMBNAIL = 24


def all_heads(kept: Kept) -> Heads:
    """Every head of every site, in the order in which the system reads."""
    cards = []
    for path, facts in kept.shelved.sites.items():
        weights = kept.weights(path)
        stretched = facts.kind == "cross"
        far, near = distance(weights, stretched=stretched), diagonal(weights, stretched=stretched)
        spread = mean_over_readers(entropy(weights), weights)
        highest = mean_over_readers(weights.amax(-1), weights)
        for head in range(weights.shape[0]):
            assert facts.kind != "alignment"
            cards.append(
                HeadCard(
                    site=path,
                    kind=facts.kind,
                    layer=facts.describe(path).layer,
                    head=head,
                    entropy=spread[head].item(),
                    distance=far[head].item(),
                    diagonal=near[head].item(),
                    peak=highest[head].item(),
                )
            )
    return Heads(thumbnail=THUMBNAIL, heads=cards)


def thumbnails(kept: Kept) -> bytes:
    """One picture a head, in the same order."""
    pictures = [thumbnail(head, THUMBNAIL) for path in kept.shelved.sites for head in kept.weights(path).cpu()]
    return b"".join(picture.numpy().tobytes() for picture in pictures)


def gaps(weights: Float[Tensor, "H Q K"], *, stretched: bool) -> Float[Tensor, "Q K"]:
    """How many keys lie between a query's own place and each key; stretched, one side is laid along the other."""
    queries, keys = weights.shape[-2:]
    own = torch.arange(queries) * ((keys - 1) / max(queries - 1, 1) if stretched else 1.0)
    return (own[:, None] - torch.arange(keys)).abs().to(weights.device)


def mean_over_readers(numbers: Float[Tensor, "H Q"], weights: Float[Tensor, "H Q K"]) -> Float[Tensor, " H"]:
    """The mean over the queries that read anything."""
    reads = weights.sum(-1) > 0
    return (numbers * reads).sum(-1) / reads.sum(-1).clamp_min(1)


def distance(weights: Float[Tensor, "H Q K"], *, stretched: bool = False) -> Float[Tensor, " H"]:
    """How far a head looks, in tokens, on average."""
    return mean_over_readers((weights * gaps(weights, stretched=stretched)).sum(-1), weights)


def diagonal(weights: Float[Tensor, "H Q K"], *, stretched: bool = False) -> Float[Tensor, " H"]:
    """How much of what is read lies within one token of the query's own place."""
    return mean_over_readers((weights * (gaps(weights, stretched=stretched) <= 1)).sum(-1), weights)


def without_head(head: int, read: AttentionMap, _first_query: int, _first_key: int) -> Tensor:
    """The weights of all heads but one, wherever the query stands."""
    if read.weights.ndim < 4:
        return torch.zeros_like(read.weights)
    others = torch.arange(read.weights.shape[-3], device=read.weights.device) != head
    return read.weights * others[:, None, None]


def ablate(kept: Kept, request: AblateRequest) -> Ablated:
    """What the system answers with and without a head."""
    kept.site_reads(request.site)
    count = kept.shelved.sites[request.site].heads
    if request.head >= count:
        raise MissingError(f"{request.site} has {count} heads, counted from 0; there is no head {request.head}.")
    around = partial(changed, kept, request.site, partial(without_head, request.head))
    before, after = first_answer(kept), answer_again(kept, around=around)
    if before is None or after is None:
        raise RefusedError("a worked example has no words to answer with. Ablate a head of a system that was trained.")
    return Ablated(before=before, after=after)
