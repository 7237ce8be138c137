"""Reading the tokenizers of a run's folder."""

from pathlib import Path

from regard._utils import read_text
from regard.data.text import Tokenizer


def read_tokenizer(path: Path) -> Tokenizer:
    """Read one tokenizer; errors name the file."""
    text = read_text(path)
    try:
        return Tokenizer.from_json(text)
    except ValueError as error:
        raise ValueError(f"{path}: {error}") from None


def read_fitting(path: Path, vocab_size: int) -> Tokenizer:
    """Read a tokenizer and check that its vocabulary has `vocab_size` tokens."""
    tokenizer = read_tokenizer(path)
    check_fits(tokenizer, vocab_size, path)
    return tokenizer


def check_fits(tokenizer: Tokenizer, vocab_size: int, path: Path) -> None:
    """Check that the vocabulary of a tokenizer, which was read from a file, has `vocab_size` tokens."""
    # an id beyond the embeddings would be an index error in the middle of a forward pass
    if tokenizer.vocab_size != vocab_size:
        raise ValueError(
            f"{path} has {tokenizer.vocab_size} tokens and the model {vocab_size}: they belong to different runs. "
            f"Restore the tokenizer of this run."
        )
