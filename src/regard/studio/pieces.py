"""Tokens as people read them: bytes merged to whole characters, marks set apart."""

import re
from collections.abc import Sequence

from regard.contracts import EOS, SPECIAL_TOKENS, UNK
from regard.studio.schema import Piece, Side, SideName

BYTE = re.compile(r"<0x([0-9A-Fa-f]{2})>\Z")
LONGEST_CHARACTER = 4
"""Bytes of UTF-8."""
MARKS = frozenset(SPECIAL_TOKENS[:UNK])
LINE_END = SPECIAL_TOKENS[EOS]


def make_side(name: SideName, tokens: Sequence[str]) -> Side:
    """Tokens in a row, raw and merged."""
    return Side(name=name, tokens=list(tokens), pieces=merge(tokens))


def make_text(tokens: Sequence[str]) -> Side:
    """A text that a language model reads: what ends a sentence elsewhere is here the end of a line."""
    pieces = [
        piece.model_copy(update={"text": "\n", "mark": False}) if piece.text == LINE_END else piece
        for piece in merge(tokens)
    ]
    return Side(name="read", tokens=list(tokens), pieces=pieces)


def merge(tokens: Sequence[str]) -> list[Piece]:
    """Bytes that make a character together become one piece; what makes none stays as it is."""
    pieces, at = [], 0
    while at < len(tokens):
        text, count = character_at(tokens, at) or (tokens[at], 1)
        pieces.append(Piece(text=text, first=at, last=at + count - 1, mark=text in MARKS))
        at += count
    return pieces


def character_at(tokens: Sequence[str], at: int) -> tuple[str, int] | None:
    """The character whose bytes begin here, and how many they are."""
    found = bytearray()
    for token in tokens[at : at + LONGEST_CHARACTER]:
        byte = BYTE.match(token)
        if byte is None:
            return None
        found.append(int(byte[1], 16))
        try:
            return found.decode(), len(found)
        except UnicodeDecodeError:
            continue
    return None
