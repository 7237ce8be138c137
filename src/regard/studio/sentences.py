"""A classifier on the page: the class of a sentence, how probable the others are, and its rows of attention.

Shapes: r rows, L words.
"""

import math
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext

import torch
import torch.nn.functional as F
from jaxtyping import Float
from torch import Tensor

from regard.data.streams import unknown_in
from regard.studio.errors import RefusedError
from regard.studio.kept import Kept, Written
from regard.studio.pieces import make_side
from regard.studio.schema import ClassShare, Look, LookRequest, Outcome, Overlap, Sorted
from regard.studio.shelf import Shelved
from regard.studio.sites import classify_at


def classify_look(shelved: Shelved, request: LookRequest, name: str, check: Callable[[int], None]) -> Kept:
    """A sentence classified with every attention open; `check` refuses more words than memory holds."""
    if request.answer is not None:
        raise RefusedError(f"{shelved.name} sorts sentences into classes; it cannot be given one. Leave it out.")
    classifier, began = shelved.at_work(), time.perf_counter()
    whole = classifier.tokenizer.encode(request.text)
    if not whole:
        raise RefusedError("there is nothing to read in this text. Type a word.")
    ids = whole[: classifier.run.batch.max_length]
    check(len(ids))
    maps, said = classify_at(classifier.model, ids)
    logits = said.logits[0].double().cpu()
    if not logits.isfinite().all():
        raise RefusedError(f"{shelved.name} gives no probabilities: its weights are broken. Train again.")
    unknown = unknown_in(request.text, classifier.tokenizer)
    found = sort_out(shelved, logits, None if said.weights is None else said.weights[0], unknown)
    rows = [str(number) for number in range(1, found.rows + 1)]
    message = Look(
        id=name,
        model=shelved.name,
        kind="sentences",
        text=request.text,
        answer=found.label,
        given=False,
        log_prob=math.log(max(found.classes[0].probability, 1e-300)),
        num_dropped=len(whole) - len(ids),
        sides=[make_side("source", classifier.tokenizer.tokens(ids)), make_side("target", rows)],
        sites=[facts.describe(path) for path, facts in shelved.sites.items()],
        milliseconds=(time.perf_counter() - began) * 1e3,
        milliseconds_per_token=None,
    )
    written = Written(source=ids, answer=(), finished=False)
    return Kept(message=message, shelved=shelved, written=written, reads=dict(maps.items()), sorted=found)


def sort_out(
    shelved: Shelved, logits: Float[Tensor, " classes"], weights: Float[Tensor, "r L"] | None, unknown: list[str]
) -> Sorted:
    """All classes, the most probable first, and how alike the rows are."""
    shares = logits.softmax(-1)
    order = shares.argsort(descending=True, stable=True).tolist()
    labels = shelved.system.run.classes
    classes = [
        ClassShare(label=labels[place], logit=logits[place].item(), probability=shares[place].item()) for place in order
    ]
    return Sorted(
        label=classes[0].label,
        classes=classes,
        site=None if weights is None else next(path for path, one in shelved.sites.items() if one.kind == "cross"),
        rows=0 if weights is None else weights.shape[0],
        overlap=None if weights is None else overlap_of(weights.double().cpu()),
        unknown=unknown,
    )


def overlap_of(weights: Float[Tensor, "r L"]) -> Overlap:
    """Lin et al. 2017, section 2.2: rows that look at the same words are alike."""
    rows = weights.shape[0]
    directions = F.normalize(weights, dim=-1)
    cosines = directions @ directions.mT
    same = torch.eye(rows, dtype=weights.dtype)
    pairs = rows * (rows - 1)
    return Overlap(
        cosine=((cosines * (1 - same)).sum() / pairs).item() if pairs else 0.0,
        penalty=(weights @ weights.mT - same).square().sum().item(),
        cosines=cosines.tolist(),
    )


def sorted_of(kept: Kept) -> Sorted:
    """What a classifier said of a look's sentence."""
    if kept.sorted is None:
        raise RefusedError(
            f"this look has no classes: {kept.message.model} is no classifier, or the look is a swap's. GET "
            f"/api/state tells what each system is."
        )
    return kept.sorted


def classify_again(kept: Kept, around: Callable[[], AbstractContextManager[None]] = nullcontext) -> Outcome:
    """The class inside `around`, and how probable the class of before is there."""
    shelved = kept.shelved
    assert isinstance(shelved, Shelved)
    classifier = shelved.at_work()
    with around():
        _, said = classify_at(classifier.model, kept.written.source)
    shares = said.logits[0].double().log_softmax(-1).cpu()
    labels = list(classifier.run.classes)
    label = labels[int(shares.argmax())]
    return Outcome(
        answer=label,
        tokens=[label],
        log_prob=shares.max().item(),
        log_prob_of_first=shares[labels.index(sorted_of(kept).label)].item(),
    )
