"""The tokenizers of a run's folder."""

from pathlib import Path

from regard.data import Tokenizer
from regard.storage import read_text


def read_tokenizer(path: Path) -> Tokenizer:
    """One tokenizer, or what is wrong with its file."""
    text = read_text(path)
    try:
        return Tokenizer.from_json(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None
