"""The one door to speed: models that decode in fewer calls, with their own numbers and their own weights."""

from typing import Any

from regard.contracts import evaluating, unwrap
from regard.fused.gpt import FusedGPT
from regard.fused.transformer import FusedTransformer
from regard.models.language_modeling import GPT
from regard.models.translation import Transformer

FUSED: dict[type, type] = {Transformer: FusedTransformer, GPT: FusedGPT}
"""A model's exact type -> its fused implementation."""


def fuse(model: Any) -> Any:
    """An object of the same protocol that decodes faster; a model of a type that has none comes back unchanged.

    It holds a reference to the model and nothing else. Edited weights are used at once; wherever an edit, a hook, a
    trace or a mode needs the model's own code, that code runs.
    """
    kind = FUSED.get(type(model))
    return model if kind is None else kind(model)


def which(model: Any) -> str:
    """Which code a model, a fused model or a predictor decodes with, and every reason against the fused one."""
    module = unwrap(model)
    name, fused = type(module).__name__, fuse(module)
    if fused is module:
        return f"{name} decodes with its own code: regard.fused has no implementation of it."
    if getattr(model, "fused", True) is False:
        return f"{name} decodes with its own code: fused is False."
    with evaluating(module):
        reasons = fused.unsupported_reasons()
    if reasons:
        return f"{name} decodes with its own code: {'; '.join(reasons)}."
    return f"{name} decodes with {type(fused).__name__}."


__all__ = [
    "FUSED",
    "FusedGPT",
    "FusedTransformer",
    "fuse",
    "which",
]
