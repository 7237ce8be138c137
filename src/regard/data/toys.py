"""Copy and reverse: letters with spaces between them, to be said again in the same or the opposite order.

copy     a c b  ->  a c b
reverse  a c b  ->  b c a
"""

import random
from dataclasses import dataclass
from itertools import islice

from regard.data.pairs import Pair
from regard.data.splits import below, draw_from


@dataclass(frozen=True, kw_only=True)
class Copy:
    """Letters of an alphabet, drawn evenly; the length is drawn evenly too."""

    alphabet: str = "abcdefghijklmnopqrstuvwxyz"
    min_length: int = 3
    max_length: int = 20

    def __post_init__(self) -> None:
        letters = self.alphabet
        if not letters or len(set(letters)) < len(letters) or any(letter.isspace() for letter in letters):
            raise ValueError(f"the alphabet {letters!r} is empty, has a space, or a letter twice. Give single letters.")
        if not 1 <= self.min_length <= self.max_length:
            raise ValueError(f"lengths from {self.min_length} to {self.max_length} are none. Give 1 <= min <= max.")

    def pairs(self, count: int, *, split: str = "train", seed: int = 0) -> list[Pair]:
        """So many pairs; the same arguments give the same ones, and no string occurs in two splits."""
        drawn = draw_from(split, seed, self._draw, str)
        return [self._pair(letters) for _, letters in islice(drawn, count)]

    def _draw(self, chance: random.Random) -> str:
        length = self.min_length + below(chance, self.max_length - self.min_length + 1)
        return "".join(self.alphabet[below(chance, len(self.alphabet))] for _ in range(length))

    def _pair(self, letters: str) -> Pair:
        text = " ".join(letters)
        return Pair(text, text, tuple((i, i + 1, i, i + 1) for i in range(0, len(text), 2)), "copy")


@dataclass(frozen=True, kw_only=True)
class Reverse(Copy):
    """Letters of an alphabet, the last one first."""

    def _pair(self, letters: str) -> Pair:
        text = " ".join(letters)
        last = len(text) - 1
        spans = tuple((i, i + 1, last - i, last - i + 1) for i in range(0, len(text), 2))
        return Pair(text, text[::-1], spans, "reverse")
