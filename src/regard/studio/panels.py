"""The panels of an inspection as messages: token predictions, state growth, classes.

Shapes: T tokens, r query rows, L tokens.
"""

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.contracts import ClassesPanel, NextTokenPanel, StatePanel, to_double
from regard.data.text import label_of
from regard.serving import MissingError
from regard.studio import code_snippets
from regard.studio.inspection_cache import CachedInspection
from regard.studio.schema.base import LocalizedText
from regard.studio.schema.inspections import (
    Candidate,
    ClassProbabilities,
    ClassProbability,
    NextTokens,
    RowOverlap,
    StateGrowth,
    StateTensor,
    TokenPredictions,
)

MAX_CANDIDATES = 10


def token_predictions(entry: CachedInspection) -> TokenPredictions:
    """The log-probability and rank of each token."""
    panel = entry.panel(NextTokenPanel)
    return TokenPredictions(
        axis=panel.axis,
        log_probs=list(panel.log_probs),
        ranks=list(panel.ranks),
        perplexity=panel.perplexity,
        vocab_size=panel.logits.shape[-1],
    )


def next_tokens(entry: CachedInspection, position: int) -> NextTokens:
    """The most probable tokens after one token, with logits, exponentials and probabilities."""
    panel = entry.panel(NextTokenPanel)
    ids = panel.ids
    if position >= len(ids):
        raise MissingError(f"there are {len(ids)} tokens, counted from 0; there is no token {position}.")
    # in double precision, so that the shown numbers add up to the shown total
    logits = to_double(panel.logits[position]).cpu()
    # subtracted before exp, which then cannot overflow
    highest = logits.max()
    exponentials = (logits - highest).exp()
    probabilities = logits.softmax(-1)
    # a vocabulary may have fewer tokens
    best = logits.topk(min(MAX_CANDIDATES, logits.shape[-1])).indices.tolist()

    def candidate(token: int) -> Candidate:
        return Candidate(
            id=token,
            token=label_of(panel.tokens_of([token])[0]),
            logit=logits[token].item(),
            exponential=exponentials[token].item(),
            probability=probabilities[token].item(),
            # rank 1: no token has a higher logit
            rank=int((logits > logits[token]).sum()) + 1,
        )

    address = f"readout logits[{position}]"
    return NextTokens(
        position=position,
        highest=highest.item(),
        total=exponentials.sum().item(),
        # entr(0) is 0, where p log p is NaN
        entropy=torch.special.entr(probabilities).sum().item(),
        vocab_size=logits.shape[-1],
        candidates=[candidate(token) for token in best],
        # no token of the text follows the last one
        true=candidate(ids[position + 1]) if position + 1 < len(ids) else None,
        address=address,
        snippet=code_snippets.softmax(entry, panel, address, position, best),
    )


def state_growth(entry: CachedInspection) -> StateGrowth:
    """The size of the state in bytes after each token."""
    panel = entry.panel(StatePanel)
    return StateGrowth(
        axis=panel.axis,
        at_start=panel.at_start,
        allocated=list(panel.allocated),
        filled=list(panel.filled),
        parts=[StateTensor(name=part.name, shape=list(part.shape), bytes=list(part.num_bytes)) for part in panel.parts],
    )


def class_probabilities(entry: CachedInspection) -> ClassProbabilities:
    """All classes, the most probable first, and the overlap of the query rows."""
    panel = entry.panel(ClassesPanel)
    # the sort is stable
    order = sorted(range(len(panel.labels)), key=lambda index: -panel.probabilities[index])
    names: list[LocalizedText | None] = [LocalizedText.of(title) for title in panel.titles]
    names = names or [None for _ in panel.labels]
    classes = [
        ClassProbability(
            label=panel.labels[index],
            name=names[index],
            logit=panel.logits[index],
            probability=panel.probabilities[index],
        )
        for index in order
    ]
    return ClassProbabilities(
        label=classes[0].label,
        name=classes[0].name,
        classes=classes,
        site=panel.site,
        num_rows=0 if panel.weights is None else panel.weights.shape[0],
        overlap=None if panel.weights is None else overlap_of(to_double(panel.weights).cpu()),
    )


def overlap_of(weights: Float[Tensor, "r L"]) -> RowOverlap:
    """Lin et al. 2017, section 2.2: the similarity of rows that attend to the same words."""
    num_rows = weights.shape[0]
    # products of rows of length 1 are cosines
    directions = F.normalize(weights, dim=-1)
    cosines = directions @ directions.mT
    identity = torch.eye(num_rows, dtype=weights.dtype)
    # ordered pairs of two different rows
    num_pairs = num_rows * (num_rows - 1)
    return RowOverlap(
        # without the diagonal, which is always 1
        cosine=((cosines * (1 - identity)).sum() / num_pairs).item() if num_pairs else 0.0,
        penalty=(weights @ weights.mT - identity).square().sum().item(),
        cosines=cosines.tolist(),
    )
