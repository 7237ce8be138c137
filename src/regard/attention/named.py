"""Scores and alignments by their names in the tables, with the sizes that they need: configs of models name them."""

import inspect
from collections.abc import Callable
from typing import Any

from regard._utils import find_variant
from regard.attention.alignments import ALIGNMENTS
from regard.attention.scores import SCORES
from regard.contracts import Alignment, Score


def make_score(name: str, *, query_size: int, key_size: int, hidden_size: int, max_length: int = 1024) -> Score:
    """A score of SCORES; those without learned parameters use no size."""
    sizes = {"query_size": query_size, "key_size": key_size, "hidden_size": hidden_size, "max_length": max_length}
    score: Score = fill(find_variant(name, SCORES, "score").build, sizes)
    return score


def make_alignment(
    name: str, *, query_size: int, hidden_size: int, window: int = 10, carries_weights: bool = False
) -> Alignment:
    """An alignment of ALIGNMENTS; `window` is that of the local ones.

    `carries_weights` says that the caller's steps pass the weights of the step before.
    """
    sizes = {"query_size": query_size, "hidden_size": hidden_size, "window": window}
    alignment: Alignment = fill(find_variant(name, ALIGNMENTS, "alignment").build, sizes)
    if needs_previous_weights(alignment) and not carries_weights:
        raise ValueError(
            f"alignment is {name!r}, which depends on the weights of the step before, and the state of this model has "
            f"none. Choose another alignment, or the model bahdanau or luong."
        )
    return alignment


def needs_previous_weights(alignment: Alignment) -> bool:
    """Whether `PositionInfo.previous_weights` has to be given step by step."""
    return bool(getattr(alignment, "needs_previous_weights", False))


def fill(build: Callable[..., Any], sizes: dict[str, int]) -> Any:
    """Call with those sizes that the signature names; other arguments keep their defaults."""
    parameters = inspect.signature(build).parameters
    return build(**{name: size for name, size in sizes.items() if name in parameters})
