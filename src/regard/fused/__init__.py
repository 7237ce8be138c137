"""The one door to speed: models that decode or train in fewer calls, with their own numbers and their own weights."""

from typing import Any

from torch import nn

from regard.contracts import evaluating, unwrap
from regard.fused.bahdanau import FusedBahdanau
from regard.fused.gpt import FusedGPT
from regard.fused.lstmn import FusedLSTMN, FusedLSTMNEncoder, FusedLSTMNLanguageModel
from regard.fused.luong import FusedLuong
from regard.fused.transformer import FusedTransformer
from regard.models.language_modeling import GPT, LSTMNLanguageModel
from regard.models.text_classification import LSTMNEncoder
from regard.models.translation import LSTMN, Bahdanau, Luong, Transformer

FUSED: dict[type, type] = {
    Bahdanau: FusedBahdanau,
    Luong: FusedLuong,
    LSTMN: FusedLSTMN,
    LSTMNLanguageModel: FusedLSTMNLanguageModel,
    LSTMNEncoder: FusedLSTMNEncoder,
    Transformer: FusedTransformer,
    GPT: FusedGPT,
}
"""A model's exact type -> its fused implementation, whose `verb` says what it is for: "decodes" or "trains"."""


def fuse(model: Any) -> Any:
    """An object of the same protocol that decodes or trains faster; a model of any other type comes back unchanged.

    It holds a reference to the model and nothing else. Edited weights are used at once; wherever an edit, a hook, a
    trace or a mode needs the model's own code, that code runs.
    """
    # the exact type: a subclass may compute something else
    kind = FUSED.get(type(model))
    return model if kind is None else kind(model)


def which(model: Any) -> str:
    """Which code a model, a fused model or a predictor decodes or trains with, and every reason against the fused one.

    A model that a fused implementation trains decodes with its own code, and the other way round. For a predictor, the
    settings of its run decide how it trains.
    """
    module = unwrap(model)
    if not isinstance(module, nn.Module):
        raise TypeError(f"model is {model!r}, expected a model or a predictor, such as regard.load(folder).")
    name, fused = type(module).__name__, fuse(module)
    if fused is module:
        return f"{name} decodes and trains with its own code: regard.fused has no implementation of it."
    # decoding runs in evaluation mode without gradients, and the reasons depend on both
    with evaluating(module):
        reasons = [*disabling_settings(model, fused.verb), *fused.unsupported_reasons()]
    if reasons:
        return f"{name} {fused.verb} with its own code: {'; '.join(reasons)}."
    return f"{name} {fused.verb} with {type(fused).__name__}."


def disabling_settings(predictor: Any, verb: str) -> list[str]:
    """The settings of a predictor that disable its fused implementation; [] for a model, which has none."""
    # a predictor that was loaded with fused=False also scores texts with the model's own training features
    reasons = ["fused is False"] if getattr(predictor, "fused", True) is False else []
    # predictors and runs of other packages need not have these attributes
    training = getattr(getattr(predictor, "run", None), "training", None)
    compute = getattr(training, "compute", None)
    if verb == "trains" and getattr(compute, "fused", True) is False:
        reasons.append("training.compute.fused is False")
    return reasons


__all__ = [
    "FUSED",
    "FusedBahdanau",
    "FusedGPT",
    "FusedLSTMN",
    "FusedLSTMNEncoder",
    "FusedLSTMNLanguageModel",
    "FusedLuong",
    "FusedTransformer",
    "fuse",
    "which",
]
