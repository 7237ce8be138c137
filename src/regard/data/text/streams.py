r"""A text as one stream of ids, for models that read on and on.

    "a b\nc\n"  ->  a b <eos> c <eos>

A line's end is <eos>, and nothing else is added: of n tokens each is predicted once, the first one behind an <eos> that
stands for whatever came before. Words are what stands between spaces, and every line's end counts as one, so that
perplexity per word means the same for words, pieces and characters.
"""

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from jaxtyping import Int

from regard.contracts import EOS, UNK
from regard.data.text.tokenizer import Tokenizer

LINES_AT_ONCE = 10_000


@dataclass(frozen=True, eq=False)
class Stream:
    """Ids of a text, how many words (line ends among them) and characters they stand for, and how many are <unk>."""

    ids: Int[np.ndarray, " N"]
    num_words: int
    num_characters: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_unknown(self) -> int:
        """Tokens that the vocabulary does not know, or that the text itself calls <unk>."""
        return int((self.ids == UNK).sum())


def make_stream(text: str, tokenizer: Tokenizer) -> Stream:
    """A text as ids; a last line without an end has none."""
    if not text.strip():
        raise ValueError("the text is empty: there is nothing to read. Give one with at least one word.")
    lines = text.split("\n")
    pieces: list[np.ndarray] = []
    for first in range(0, len(lines), LINES_AT_ONCE):
        for line in tokenizer.encode_batch(lines[first : first + LINES_AT_ONCE]):
            pieces.append(np.array([*line, EOS], np.int32))
    # between n lines there are n - 1 ends
    ids = np.concatenate(pieces)[:-1]
    if not len(ids):
        raise ValueError("the text is empty: there is nothing to read. Give one with at least one word.")
    words = sum(len(line.split()) for line in lines) + len(lines) - 1
    return Stream(ids=ids, num_words=words, num_characters=len(text))


def encode_text(text: str, tokenizer: Tokenizer) -> list[int]:
    """The ids of a text that may be empty, as `make_stream` has them."""
    found: list[int] = []
    for number, ids in enumerate(tokenizer.encode_batch(text.split("\n"))):
        found += [EOS, *ids] if number else ids
    return found


def decode_text(ids: Iterable[int], tokenizer: Tokenizer) -> str:
    """The text of these ids, a line's end for every <eos>."""
    lines: list[list[int]] = [[]]
    for token in ids:
        if token == EOS:
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(tokenizer.decode(line) for line in lines)


def unknown_in(text: str, tokenizer: Tokenizer) -> list[str]:
    """What of a text the vocabulary does not know, each once, in order."""
    found: dict[str, None] = {}
    for line in text.split("\n"):
        spans = zip(tokenizer.encode(line), tokenizer.spans(line), strict=True)
        found |= {line[start:end]: None for token, (start, end) in spans if token == UNK}
    return list(found)
