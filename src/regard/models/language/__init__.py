"""Systems that read a text and say what comes next, in history order."""

from regard.models.entry import ModelEntry

LANGUAGE_MODELS: dict[str, ModelEntry] = {}

__all__ = ["LANGUAGE_MODELS"]
