"""Measures and thumbnails of all heads of an inspection, and the output with a head ablated."""

from functools import partial

import torch
from torch import Tensor

from regard.analysis import diagonal_mass, mean_distance, mean_over_active
from regard.contracts import AttentionMap
from regard.serving import MissingError, RefusedError
from regard.studio.export import thumbnail
from regard.studio.inspection_cache import CachedInspection
from regard.studio.inspections import layer_of, respond
from regard.studio.schema.numbers import AblateRequest, AblationResult, HeadMeasures, HeadOverview
from regard.studio.swap import intervene_at, normalized_entropy

THUMBNAIL = 24


def all_heads(entry: CachedInspection) -> HeadOverview:
    """The measures of every head of every site, in the order of the model."""
    measures = []
    for site in entry.inspection.sites:
        weights = entry.weights(site.path)
        # between two sequences, positions are scaled to the same length first
        distances = mean_distance(weights, stretched=site.is_cross)
        diagonals = diagonal_mass(weights, stretched=site.is_cross)
        # over queries with any weight: the others have no distribution
        entropies = mean_over_active(normalized_entropy(weights), weights)
        peaks = mean_over_active(weights.amax(-1), weights)
        measures += [
            HeadMeasures(
                site=site.path,
                queries=site.query_axis,
                keys=site.key_axis,
                layer=layer_of(site.path),
                head=head,
                entropy=entropies[head].item(),
                distance=distances[head].item(),
                diagonal=diagonals[head].item(),
                peak=peaks[head].item(),
            )
            for head in range(weights.shape[0])
        ]
    return HeadOverview(thumbnail=THUMBNAIL, heads=measures)


def thumbnails(entry: CachedInspection) -> bytes:
    """One thumbnail per head, in the order of `all_heads`."""
    # one transfer for all heads of a site
    pictures = [
        thumbnail(head, THUMBNAIL) for site in entry.inspection.sites for head in entry.weights(site.path).cpu()
    ]
    return b"".join(picture.numpy().tobytes() for picture in pictures)


def without_head(head: int, attention_map: AttentionMap, _first_query: int, _first_key: int) -> Tensor:
    """The weights with one head set to 0."""
    weights = attention_map.weights
    # without the dimension of heads there is one head, which is the whole attention
    if weights.ndim < 4:
        return torch.zeros_like(weights)
    others = torch.arange(weights.shape[-3], device=weights.device) != head
    # (heads, 1, 1) broadcasts over queries and keys
    return weights * others[:, None, None]


def ablate(entry: CachedInspection, request: AblateRequest) -> AblationResult:
    """The output with and without the head."""
    count = entry.site(request.site).num_heads
    if request.head >= count:
        raise MissingError(f"{request.site} has {count} heads, counted from 0; there is no head {request.head}.")
    # a function: `respond` enters a context for each pass
    around = partial(intervene_at, entry, request.site, partial(without_head, request.head))
    before, after = respond(entry), respond(entry, around)
    # worked examples have no output
    if before is None or after is None:
        raise RefusedError(f"{entry.model.name} has no output to change. Ablate a head of a model that was trained.")
    return AblationResult(before=before, after=after)
