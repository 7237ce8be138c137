"""Tokens as readable labels: bytes merged to whole characters, marks set apart."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from regard.contracts import EOS, SPECIAL_TOKENS

BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
MAX_CHARACTER_BYTES = 4
"""Bytes of a character in UTF-8."""
LINE_END = SPECIAL_TOKENS[EOS]


@dataclass(frozen=True, kw_only=True)
class MergedToken:
    """The text of the tokens `first` to `last`; `mark` says that it is a special token, which is no text."""

    text: str
    first: int
    last: int
    mark: bool


def merge_bytes(tokens: Sequence[str], marks: Collection[int] = ()) -> list[MergedToken]:
    """Bytes that make a character together become one label; what makes none stays as it is.

    An <eos> that is no mark is the end of a line.
    """
    labels, first = [], 0
    while first < len(tokens):
        text, count = character_at(tokens, first) or (tokens[first], 1)
        mark = first in marks
        text = "\n" if text == LINE_END and not mark else text
        labels.append(MergedToken(text=text, first=first, last=first + count - 1, mark=mark))
        first += count
    return labels


def label_of(token: str) -> str:
    """One token of a text; the end of a line is one."""
    return merge_bytes([token])[0].text


def character_at(tokens: Sequence[str], first: int) -> tuple[str, int] | None:
    """The character whose bytes begin at this position, and the number of its bytes."""
    data = bytearray()
    for token in tokens[first : first + MAX_CHARACTER_BYTES]:
        byte = BYTE.match(token)
        if byte is None:
            return None
        data.append(int(byte[1], 16))
        try:
            return data.decode(), len(data)
        except UnicodeDecodeError:
            continue
    return None
