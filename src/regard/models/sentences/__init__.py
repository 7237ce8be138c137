"""Systems that read a sentence and say of which class it is, in history order."""

from regard.models.entry import ModelEntry

SENTENCE_MODELS: dict[str, ModelEntry] = {}

__all__ = ["SENTENCE_MODELS"]
