"""Tokens as readable labels: byte tokens are merged to characters, special tokens are marked."""

import re
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from regard.contracts import EOS, SPECIAL_TOKENS

BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
MAX_CHARACTER_BYTES = 4
"""The maximum number of bytes of a character in UTF-8."""
LINE_END = SPECIAL_TOKENS[EOS]


@dataclass(frozen=True, kw_only=True)
class MergedToken:
    """The text of the tokens `first` to `last`; `mark` is True for a special token, which is not part of the text."""

    text: str
    first: int
    last: int
    mark: bool


def merge_bytes(tokens: Sequence[str], marks: Collection[int] = ()) -> list[MergedToken]:
    """Merge the byte tokens of a character into one label; other tokens are unchanged.

    An <eos> outside `marks` is a line end.
    """
    labels, first = [], 0
    while first < len(tokens):
        # a token that is not a byte, or a byte without a complete character, is a label of its own
        text, count = character_at(tokens, first) or (tokens[first], 1)
        mark = first in marks
        text = "\n" if text == LINE_END and not mark else text
        labels.append(MergedToken(text=text, first=first, last=first + count - 1, mark=mark))
        first += count
    return labels


def label_of(token: str) -> str:
    """The label of one token of a text, which may be a line end."""
    return merge_bytes([token])[0].text


def character_at(tokens: Sequence[str], first: int) -> tuple[str, int] | None:
    """The character whose bytes begin at this position, and their number; None if there is no complete one."""
    data = bytearray()
    for token in tokens[first : first + MAX_CHARACTER_BYTES]:
        byte = BYTE.match(token)
        if byte is None:
            return None
        data.append(int(byte[1], 16))
        # the first prefix that decodes is the character: no code of UTF-8 is the beginning of another
        try:
            return data.decode(), len(data)
        except UnicodeDecodeError:
            continue
    return None
