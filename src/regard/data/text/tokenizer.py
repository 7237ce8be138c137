"""Text to token ids and back: vocabularies trained with the tokenizers library.

Vocabularies learned from text with the tokenizers library.

bpe         merges the most frequent neighbours. Sennrich, Haddow and Birch 2016. https://arxiv.org/abs/1508.07909
words       splits at whitespace: for text that is tokenised already
characters  every character for itself

White space is one space, or, with `spaces="kept"`, as it stands (but for words); `▁` marks where a word begins (bpe).
Pieces never cross from letters to digits to punctuation, nor from Chinese or Japanese to other writing; so
Chinese needs no spaces, and text that spells a mark, such as "<eos>", is never one piece. Ties are broken by spelling:
the same text gives the same vocabulary.

Text to ids and back.

The ids 0..3 are the marks <pad>, <bos>, <eos> and <unk>, and no text becomes one of the first three, however it is
spelled.
"""

import json
from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Literal, get_args

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard._utils import check_name
from regard.contracts import SPECIAL_TOKENS, UNK
from regard.data.text.pairs import Pair

SPACE = "▁"
Spaces = Literal["single", "kept"]
KINDS = ("bpe", "words", "characters")

_UNKNOWN = SPECIAL_TOKENS[UNK]
_WHITE = rf"[\s{SPACE}\x1c-\x1f\x85]+"
_HAN = r"\p{Han}\p{Hiragana}\p{Katakana}ー"
_PIECE = (
    rf"{SPACE}?[{_HAN}]+|{SPACE}?[\p{{L}}\p{{M}}&&[^{_HAN}]]+|{SPACE}?\p{{N}}+"
    rf"|{SPACE}?[^\p{{L}}\p{{M}}\p{{N}}{SPACE}]+|{SPACE}"
)


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """What to learn. `vocab_size` is the most there may be, the four marks included; less text gives fewer.

    `min_count`: a word, a character or a merge seen less often is left out. `spaces`: every run of white space becomes
    one space, or all of it is kept, as a model of whole texts needs.
    """

    kind: str = "bpe"
    vocab_size: int = 10_000
    lowercase: bool = False
    min_count: int = 1
    spaces: Spaces = "single"

    def __post_init__(self) -> None:
        check_name(self.kind, KINDS, "tokenizer")
        check_name(self.spaces, get_args(Spaces), "way with spaces")
        if self.vocab_size <= len(SPECIAL_TOKENS):
            raise ValueError(
                f"vocab_size is {self.vocab_size}, and the marks alone take {len(SPECIAL_TOKENS)}. Allow at least 5."
            )
        if self.min_count < 1:
            raise ValueError(f"min_count is {self.min_count}. Give 1 or more.")


def learn(lines: Iterable[str], settings: TokenizerSettings) -> tokenizers.Tokenizer:
    """A tokenizer of the library whose ids begin with the four marks."""
    tokenizer = (_bpe if settings.kind == "bpe" else _lookup)(lines, settings)
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"there is no text to learn a vocabulary from, or nothing in it occurs {settings.min_count} times."
        )
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def _bpe(lines: Iterable[str], settings: TokenizerSettings) -> tokenizers.Tokenizer:
    tokenizer = _subwords(models.BPE(unk_token=_UNKNOWN), settings)
    texts = list(lines)
    # the library keeps the most frequent characters too, but breaks ties at random
    counts = Counter(character for text in texts for character in tokenizer.normalizer.normalize_str(text))
    alphabet = _most_frequent(counts, settings)
    trainer = trainers.BpeTrainer(
        vocab_size=settings.vocab_size,
        min_frequency=settings.min_count,
        special_tokens=list(SPECIAL_TOKENS),
        initial_alphabet=alphabet,
        limit_alphabet=len(alphabet),
        show_progress=False,
    )
    if alphabet:
        tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _lookup(lines: Iterable[str], settings: TokenizerSettings) -> tokenizers.Tokenizer:
    """Words or characters: a table of the most frequent."""
    normalizer, words = _normalizer(settings), settings.kind == "words"
    counts: Counter[str] = Counter()
    for line in lines:
        text = normalizer.normalize_str(line)
        counts.update(text.split(" ") if words else text)
    for never in ("", *SPECIAL_TOKENS):
        counts.pop(never, None)
    tokens = [*SPECIAL_TOKENS, *_most_frequent(counts, settings)]
    tokenizer = tokenizers.Tokenizer(models.WordLevel({token: place for place, token in enumerate(tokens)}, _UNKNOWN))
    tokenizer.normalizer = normalizer
    if words:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")
        tokenizer.decoder = decoders.Fuse()
    return tokenizer


def _most_frequent(counts: Counter[str], settings: TokenizerSettings) -> list[str]:
    often = [token for token, count in counts.items() if count >= settings.min_count]
    return sorted(often, key=lambda token: (-counts[token], token))[: settings.vocab_size - len(SPECIAL_TOKENS)]


def _subwords(model: models.Model, settings: TokenizerSettings) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(model)
    marked = [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    tokenizer.normalizer = normalizers.Sequence([_normalizer(settings), *marked])
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex(_PIECE), "isolated")
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    return tokenizer


def _normalizer(settings: TokenizerSettings) -> normalizers.Normalizer:
    lowercase = [normalizers.Lowercase()] if settings.lowercase else []
    if settings.spaces == "kept" and settings.kind != "words":
        return normalizers.Sequence(lowercase)
    return normalizers.Sequence([normalizers.Replace(Regex(_WHITE), " "), normalizers.Strip(), *lowercase])


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
