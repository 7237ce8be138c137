"""Ids to text as they come: each new token adds to the text, and nothing that was said is taken back."""

from collections.abc import Sequence

from regard.contracts import EOS
from regard.data import Tokenizer


class Unfolding:
    """The text of a stream of ids, line by line; what a token adds depends on the token before it in its line."""

    def __init__(self, tokenizer: Tokenizer, ids: Sequence[int] = ()) -> None:
        self._tokenizer = tokenizer
        self._last = [token for token in ids[-1:] if token != EOS]

    def add(self, token: int) -> str:
        """What the token adds to the text; <eos> is a line's end."""
        if token == EOS:
            self._last = []
            return "\n"
        before, both = (self._tokenizer.decode(ids) for ids in (self._last, [*self._last, token]))
        self._last = [token]
        return both[len(before) :]


class StoppedText:
    """A text that ends before the first of some words; what may yet become one of them is held back."""

    def __init__(self, stop: Sequence[str]) -> None:
        if any(not word for word in stop):
            raise ValueError("a stop string is empty, before which every text would end. Give at least one character.")
        self._stop, self._held = stop, ""
        self.ended = False

    def add(self, text: str) -> str:
        """What can be shown now."""
        whole = self._held + text
        # the word that is whole first, however the text was cut into tokens
        found = [(place + len(word), place) for word in self._stop if (place := whole.find(word)) >= 0]
        if found:
            self.ended, self._held = True, ""
            return whole[: min(found)[1]]
        kept = max((overlap(whole, word) for word in self._stop), default=0)
        self._held = whole[len(whole) - kept :]
        return whole[: len(whole) - kept]

    def rest(self) -> str:
        """What was held back, once nothing more comes."""
        held, self._held = self._held, ""
        return "" if self.ended else held


def overlap(text: str, word: str) -> int:
    """How many characters at the end of the text are the beginning of the word."""
    return next((count for count in range(min(len(word) - 1, len(text)), 0, -1) if text.endswith(word[:count])), 0)
