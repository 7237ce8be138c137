"""Text to ids and back.

The ids 0..3 are the marks <pad>, <bos>, <eos> and <unk>, and no text becomes one of the first three, however it is
spelled.
"""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import tokenizers

from regard.contracts import SPECIAL_TOKENS, UNK
from regard.data.learn import KINDS, SPACE, TokenizerSettings, learn
from regard.data.pairs import Pair


class Tokenizer:
    """A vocabulary with its rules. `decode(encode(text))` is the text with single spaces, where all of it is known."""

    def __init__(self, library: tokenizers.Tokenizer, kind: str) -> None:
        self.kind = kind
        self._library = library
        # otherwise the library reads "<eos>" in a text as the mark
        library.encode_special_tokens = True

    @classmethod
    def train(cls, lines: Iterable[str], settings: TokenizerSettings) -> "Tokenizer":
        """Learn a vocabulary; the same lines and settings give the same one."""
        return cls(learn(lines, settings), settings.kind)

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """What `to_json` wrote."""
        try:
            library = tokenizers.Tokenizer.from_str(text)
            parts = json.loads(text)
        except Exception as error:  # the library raises nothing narrower
            raise ValueError(f"this is no tokenizer file, or not a whole one ({error}).") from None
        marks = tuple(library.id_to_token(place) for place in range(len(SPECIAL_TOKENS)))
        kinds = {"BPE": "bpe", "WordLevel": "characters" if parts.get("decoder") else "words"}
        kind = parts["model"].get("type", "BPE")
        if kind not in kinds:
            raise ValueError(
                f"this tokenizer is of the kind {kind}, which regard does not read. Train one of {', '.join(KINDS)}."
            )
        if marks != SPECIAL_TOKENS:
            raise ValueError(
                f"this tokenizer was made elsewhere: its first ids are {', '.join(map(str, marks))}, and "
                f"{', '.join(SPECIAL_TOKENS)} are needed. Train one with regard."
            )
        return cls(library, kinds[kind])

    def to_json(self) -> str:
        """The tokenizers library's own JSON."""
        return self._library.to_str(pretty=True)

    @property
    def vocab_size(self) -> int:
        """How many ids there are, the marks included."""
        return self._library.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without marks; what is unknown becomes <unk>."""
        return _plain(self._library.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of many texts, faster than one by one."""
        return [_plain(found.ids) for found in self._library.encode_batch_fast(list(texts), add_special_tokens=False)]

    def decode(self, ids: Iterable[int]) -> str:
        """The text; <pad>, <bos> and <eos> are left out, and <unk> is written, so that a gap is seen."""
        return self._library.decode([token for token in ids if token >= UNK], skip_special_tokens=False)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """Each token as people read it; ▁ is a space."""
        return [(self._library.id_to_token(token) or "").replace(" ", SPACE) for token in ids]

    def words(self, ids: Iterable[int]) -> list[int]:
        """For each token, the number of its word, counted between spaces; a space belongs to the word behind it."""
        found, word = [], 0
        for place, token in enumerate(self.tokens(ids)):
            if place and (self.kind == "words" or token.startswith(SPACE)):
                word += 1
            found.append(word)
        return found

    def spans(self, text: str) -> list[tuple[int, int]]:
        """For each token, the characters [start, end) of the text that it stands for."""
        return list(self._library.encode(text, add_special_tokens=False).offsets)


def _plain(ids: list[int]) -> list[int]:
    """A word that spells a mark is an unknown word."""
    return ids if min(ids, default=UNK) >= UNK else [max(token, UNK) for token in ids]


@dataclass(frozen=True)
class Tokenizers:
    """One tokenizer a side; `joint` where both are the same."""

    source: Tokenizer
    target: Tokenizer
    joint: bool

    @classmethod
    def train(cls, pairs: Sequence[Pair], settings: TokenizerSettings, *, joint: bool = False) -> "Tokenizers":
        """Learn from both sides together, or from each alone."""
        if joint:
            both = Tokenizer.train([text for pair in pairs for text in (pair.source, pair.target)], settings)
            return cls(both, both, True)
        source, target = ([getattr(pair, side) for pair in pairs] for side in ("source", "target"))
        return cls(Tokenizer.train(source, settings), Tokenizer.train(target, settings), False)

    def links(self, pair: Pair) -> tuple[tuple[int, int], ...] | None:
        """The true alignment of a pair between its tokens, where the pair knows it between its characters."""
        if pair.spans is None:
            return None
        source, target = self.source.spans(pair.source), self.target.spans(pair.target)
        found = {
            (i, j)
            for a, b, c, d in pair.spans
            for i, (start, end) in enumerate(source)
            if start < b and a < end
            for j, (first, last) in enumerate(target)
            if first < d and c < last
        }
        return tuple(sorted(found))
