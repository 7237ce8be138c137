r"""A text as one stream of token ids, for language models.

    "a b\nc\n"  ->  a b <eos> c <eos>

Every line end is <eos>, and nothing else is added. Each of the n tokens is predicted once, the first one after an <eos>
that represents the preceding text. Words are separated by spaces, and every line end counts as a word, so that
perplexity per word is comparable between words, subwords and characters.
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
    """The ids of a text, and its numbers of words (including line ends) and characters."""

    ids: Int[np.ndarray, " N"]
    num_words: int
    num_characters: int

    def __len__(self) -> int:
        return len(self.ids)

    @property
    def num_unknown(self) -> int:
        """The number of <unk> tokens: those outside the vocabulary, and those spelled <unk> in the text."""
        return int((self.ids == UNK).sum())


def make_stream(text: str, tokenizer: Tokenizer) -> Stream:
    """The stream of a text; a last line without a line end has no <eos>."""
    if not text.strip():
        raise ValueError("the text is empty. Give one with at least one word.")
    # only \n, as in the readers of files; other separators are characters of the text
    lines = text.split("\n")
    arrays: list[np.ndarray] = []
    # in groups: the library encodes a list in parallel, and only one group is held as Python lists
    for first in range(0, len(lines), LINES_AT_ONCE):
        for line in tokenizer.encode_batch(lines[first : first + LINES_AT_ONCE]):
            # int32: a vocabulary fits, and a stream of 10^9 tokens needs half the memory
            arrays.append(np.array([*line, EOS], np.int32))
    # n lines have n - 1 line ends between them
    ids = np.concatenate(arrays)[:-1]
    # the tokenizer may remove characters that `strip` leaves
    if not len(ids):
        raise ValueError("the text is empty. Give one with at least one word.")
    # line ends count as words, one less than there are lines
    words = sum(len(line.split()) for line in lines) + len(lines) - 1
    return Stream(ids=ids, num_words=words, num_characters=len(text))


def encode_text(text: str, tokenizer: Tokenizer) -> list[int]:
    """The ids of a text that may be empty, in the format of `make_stream`."""
    text_ids: list[int] = []
    for number, ids in enumerate(tokenizer.encode_batch(text.split("\n"))):
        # an <eos> between lines, none at the end: the text may be continued
        text_ids += [EOS, *ids] if number else ids
    return text_ids


def decode_text(ids: Iterable[int], tokenizer: Tokenizer) -> str:
    """The text of these ids, with a line end for every <eos>."""
    # one more line than <eos> tokens
    lines: list[list[int]] = [[]]
    for token in ids:
        if token == EOS:
            lines.append([])
        else:
            lines[-1].append(token)
    return "\n".join(tokenizer.decode(line) for line in lines)


def token_texts(text: str, tokenizer: Tokenizer) -> list[str]:
    """The characters of the text behind each token of `encode_text`; those of an <eos> are a line end."""
    texts: list[str] = []
    for number, line in enumerate(text.split("\n")):
        texts += ["\n", *tokenizer.texts(line)] if number else tokenizer.texts(line)
    return texts


def unknown_in(text: str, tokenizer: Tokenizer) -> list[str]:
    """The parts of a text that are outside the vocabulary, each once, in order."""
    tokens = zip(encode_text(text, tokenizer), token_texts(text, tokenizer), strict=True)
    # a dict is an ordered set
    return list(dict.fromkeys(part for token, part in tokens if token == UNK))
