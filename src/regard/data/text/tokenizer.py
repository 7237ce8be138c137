"""Text to token ids and back: vocabularies trained with the tokenizers library.

    bpe         byte-pair encoding. Sennrich, Haddow and Birch 2016. https://arxiv.org/abs/1508.07909
    words       splits at white space: for text that is already tokenised
    characters  one token per character

White space becomes one space, or with `spaces="kept"` is unchanged (not for words). `▁` marks the start of a
word (bpe). BPE tokens never cross from letters to digits to punctuation, nor from Chinese or Japanese to other scripts.
So Chinese needs no spaces, and text that spells a special token, such as "<eos>", is never a single token. A word of
more than MAX_WORD characters is cut before its merges, whose time grows with the square of its length; no character is
lost. Ties are broken by spelling: the same text gives the same vocabulary.

The ids 0..3 are the special tokens <pad>, <bos>, <eos> and <unk>; no text is encoded as one of the first three.
"""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Literal, get_args

import tokenizers
from tokenizers import Regex, decoders, models, normalizers, pre_tokenizers, trainers

from regard._utils import check_name
from regard.contracts import SPECIAL_TOKENS, UNK
from regard.data.text.pairs import Pair

SPACE = "▁"
Spaces = Literal["single", "kept"]
_UNKNOWN = SPECIAL_TOKENS[UNK]
# \s of the library lacks \x1c-\x1f, which Python counts as white space; ▁ would be taken for a word start
_WHITE = rf"[\s{SPACE}\x1c-\x1f\x85]+"
# characters of Chinese and Japanese text; ー is the sign of long vowels, which has no script of its own
_HAN = r"\p{Han}\p{Hiragana}\p{Katakana}ー"
_PIECE = (
    # alternatives in order, each with the space before it: Chinese and Japanese, other letters, numbers, the rest
    rf"{SPACE}?[{_HAN}]+|{SPACE}?[\p{{L}}\p{{M}}&&[^{_HAN}]]+|{SPACE}?\p{{N}}+"
    rf"|{SPACE}?[^\p{{L}}\p{{M}}\p{{N}}{SPACE}]+|{SPACE}"
)
MAX_WORD = 1000
"""Characters after which a word is cut, before its merges; far beyond the words of any language."""


@dataclass(frozen=True, kw_only=True)
class TokenizerSettings:
    """Settings of a tokenizer; `kind` is one of TOKENIZER_KINDS.

    `vocab_size` is an upper bound that includes the four special tokens. A word, a character or a merge with fewer than
    `min_count` occurrences is excluded. `spaces` is "single" if every run of white space becomes one space, or "kept"
    if it is unchanged, as language models of whole texts need.
    """

    kind: str = "bpe"
    vocab_size: int = 10_000
    lowercase: bool = False
    min_count: int = 1
    spaces: Spaces = "single"

    def __post_init__(self) -> None:
        check_name(self.kind, TOKENIZER_KINDS, "tokenizer")
        check_name(self.spaces, get_args(Spaces), "handling of spaces")
        if self.vocab_size <= len(SPECIAL_TOKENS):
            raise ValueError(
                f"vocab_size is {self.vocab_size}, and {len(SPECIAL_TOKENS)} are special tokens. Give 5 or more."
            )
        if self.min_count < 1:
            raise ValueError(f"min_count is {self.min_count}. Give 1 or more.")


Trainer = Callable[[Iterable[str], TokenizerSettings], tokenizers.Tokenizer]


@dataclass(frozen=True, kw_only=True)
class TokenizerKind:
    """How a kind of tokenizer is trained; `spaces_between_tokens` is True if every token is a word."""

    train: Trainer
    spaces_between_tokens: bool = False


def train_library(lines: Iterable[str], settings: TokenizerSettings) -> tokenizers.Tokenizer:
    """Train a tokenizer of the library whose first ids are the special tokens."""
    tokenizer = TOKENIZER_KINDS[settings.kind].train(lines, settings)
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"there is no text to learn a vocabulary from, or nothing in it occurs {settings.min_count} times."
        )
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def _train_bpe(lines: Iterable[str], settings: TokenizerSettings) -> tokenizers.Tokenizer:
    tokenizer = tokenizers.Tokenizer(models.BPE(unk_token=_UNKNOWN))
    word_starts = [normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)]
    # the marks of word starts after the other rules, which would replace them as white space
    tokenizer.normalizer = normalizers.Sequence([_normalizer(settings, settings.spaces), *word_starts])
    tokenizer.pre_tokenizer = _with_limit(pre_tokenizers.Split(Regex(_PIECE), "isolated"))
    # the reverse of the normalizer: ▁ to spaces, tokens joined, without the space before the first word
    tokenizer.decoder = decoders.Sequence([decoders.Replace(SPACE, " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)])
    # a list, as the texts are iterated twice: for the alphabet and for the merges
    texts = list(lines)
    # the library also selects the most frequent characters, but breaks ties at random
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
    # an empty alphabet leaves the tokenizer untrained, for which `train_library` raises the error
    if alphabet:
        tokenizer.train_from_iterator(texts, trainer)
    return tokenizer


def _train_words(lines: Iterable[str], settings: TokenizerSettings) -> tokenizers.Tokenizer:
    # a word has no spaces, so those between words are always single
    normalizer = _normalizer(settings, "single")
    counts = Counter(word for line in lines for word in normalizer.normalize_str(line).split(" "))
    tokenizer = _lookup(counts, settings, normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "removed")
    return tokenizer


def _train_characters(lines: Iterable[str], settings: TokenizerSettings) -> tokenizers.Tokenizer:
    normalizer = _normalizer(settings, settings.spaces)
    counts = Counter(character for line in lines for character in normalizer.normalize_str(line))
    tokenizer = _lookup(counts, settings, normalizer)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(Regex("(?m)."), "isolated")
    tokenizer.decoder = decoders.Fuse()
    return tokenizer


def _lookup(
    counts: Counter[str], settings: TokenizerSettings, normalizer: normalizers.Normalizer
) -> tokenizers.Tokenizer:
    """A table of the most frequent tokens."""
    # text that spells a special token must not become one
    # "" arises from empty lines
    for excluded in ("", *SPECIAL_TOKENS):
        counts.pop(excluded, None)
    tokens = [*SPECIAL_TOKENS, *_most_frequent(counts, settings)]
    ids = {token: number for number, token in enumerate(tokens)}
    tokenizer = tokenizers.Tokenizer(models.WordLevel(ids, _UNKNOWN))
    tokenizer.normalizer = normalizer
    return tokenizer


def _with_limit(pre_tokenizer: Any) -> Any:
    """A pre-tokenizer that also cuts words after MAX_WORD characters."""
    limit = f"(?m).{{1,{MAX_WORD}}}"
    # the state of a pre-tokenizer is its JSON
    if pre_tokenizer is not None and limit.encode() in pre_tokenizer.__getstate__():
        return pre_tokenizer
    # (?m): the dot matches every character, also the end of a line
    cut = pre_tokenizers.Split(Regex(limit), "isolated")
    return cut if pre_tokenizer is None else pre_tokenizers.Sequence([pre_tokenizer, cut])


def _most_frequent(counts: Counter[str], settings: TokenizerSettings) -> list[str]:
    frequent = [token for token, count in counts.items() if count >= settings.min_count]
    # ties by spelling, so that the same text gives the same vocabulary
    return sorted(frequent, key=lambda token: (-counts[token], token))[: settings.vocab_size - len(SPECIAL_TOKENS)]


def _normalizer(settings: TokenizerSettings, spaces: Spaces) -> normalizers.Normalizer:
    lowercase = [normalizers.Lowercase()] if settings.lowercase else []
    if spaces == "kept":
        # no Strip either: spaces at both ends are part of the text
        return normalizers.Sequence(lowercase)
    return normalizers.Sequence([normalizers.Replace(Regex(_WHITE), " "), normalizers.Strip(), *lowercase])


TOKENIZER_KINDS = {
    "bpe": TokenizerKind(train=_train_bpe),
    "words": TokenizerKind(train=_train_words, spaces_between_tokens=True),
    "characters": TokenizerKind(train=_train_characters),
}
"""Every kind of tokenizer by its name in the settings."""


class Tokenizer:
    """A trained tokenizer. `decode(encode(text))` is the text with single spaces if its vocabulary covers the text."""

    def __init__(self, library: tokenizers.Tokenizer, kind: str) -> None:
        self.kind = kind
        self._library = library
        # otherwise the library encodes "<eos>" in a text as the special token
        library.encode_special_tokens = True
        # also for a saved tokenizer, whose file stays as it is
        if isinstance(library.model, models.BPE):
            library.pre_tokenizer = _with_limit(library.pre_tokenizer)

    @classmethod
    def train(cls, lines: Iterable[str], settings: TokenizerSettings) -> "Tokenizer":
        """Train a tokenizer; the same lines and settings give the same vocabulary."""
        return cls(train_library(lines, settings), settings.kind)

    @classmethod
    def from_json(cls, text: str) -> "Tokenizer":
        """The tokenizer that `to_json` wrote."""
        try:
            with _refusing_panics():
                library = tokenizers.Tokenizer.from_str(text)
            parts = json.loads(text)
        except Exception as error:  # the library raises plain Exceptions
            raise ValueError(f"the text is not a complete tokenizer file ({error}).") from None
        first_tokens = tuple(library.id_to_token(number) for number in range(len(SPECIAL_TOKENS)))
        # the file has no name of the kind: characters have a decoder that joins them, words have none
        kinds = {"BPE": "bpe", "WordLevel": "characters" if parts.get("decoder") else "words"}
        model = parts["model"].get("type", "BPE")
        if model not in kinds:
            raise ValueError(
                f"the model of this tokenizer is {model}, which is not supported. Train one of "
                f"{', '.join(TOKENIZER_KINDS)}."
            )
        if first_tokens != SPECIAL_TOKENS:
            raise ValueError(
                f"the first tokens of this tokenizer are {', '.join(map(str, first_tokens))}, expected "
                f"{', '.join(SPECIAL_TOKENS)}. Train one with regard."
            )
        if parts["model"].get("unk_token") != _UNKNOWN:
            raise ValueError(
                f"this tokenizer has {parts['model'].get('unk_token')!r} for unknown text, expected {_UNKNOWN!r}. "
                f"Train one with regard."
            )
        # the embeddings have as many vectors as there are tokens
        number, count = max(library.get_vocab().values()), library.get_vocab_size()
        if number >= count:
            raise ValueError(
                f"a token of this tokenizer has the id {number}, and there are {count} tokens. Restore it from a copy."
            )
        return cls(library, kinds[model])

    def to_json(self) -> str:
        """The tokenizers library's own JSON."""
        return self._library.to_str(pretty=True)

    @property
    def vocab_size(self) -> int:
        """The number of ids, including the special tokens."""
        return self._library.get_vocab_size()

    def encode(self, text: str) -> list[int]:
        """The ids of a text, without <bos> and <eos>; what is outside the vocabulary becomes <unk>."""
        with _refusing_panics():
            return _without_special(self._library.encode(text, add_special_tokens=False).ids)

    def encode_batch(self, texts: Sequence[str]) -> list[list[int]]:
        """The ids of several texts, encoded in parallel."""
        # the fast variant computes no offsets, which are not needed here
        with _refusing_panics():
            encodings = self._library.encode_batch_fast(list(texts), add_special_tokens=False)
        return [_without_special(encoding.ids) for encoding in encodings]

    def decode(self, ids: Iterable[int]) -> str:
        """The text of the ids, without <pad>, <bos> and <eos>; <unk> is written, so that gaps are visible."""
        # <unk> has the highest id of the special tokens, so the test keeps it and the words
        return self._library.decode([token for token in ids if token >= UNK], skip_special_tokens=False)

    def tokens(self, ids: Iterable[int]) -> list[str]:
        """The spelling of each token; ▁ is a space."""
        # characters have a token for the space itself, which becomes visible
        return [(self._library.id_to_token(token) or "").replace(" ", SPACE) for token in ids]

    def words(self, ids: Iterable[int]) -> list[int]:
        """For each token, the number of its word; words begin after spaces, and a space belongs to the next word."""
        words, word = [], 0
        every_token = TOKENIZER_KINDS[self.kind].spaces_between_tokens
        for position, token in enumerate(self.tokens(ids)):
            # a token with a space in front begins the next word, except at the start of the text
            if position and (every_token or token.startswith(SPACE)):
                word += 1
            words.append(word)
        return words

    def spans(self, text: str) -> list[tuple[int, int]]:
        """For each token, its characters [start, end) in the text."""
        with _refusing_panics():
            return list(self._library.encode(text, add_special_tokens=False).offsets)

    def texts(self, text: str) -> list[str]:
        """For each token, its characters in the text: those before normalisation, so the spelling is the user's."""
        return [text[start:end] for start, end in self.spans(text)]


@contextmanager
def _refusing_panics() -> Iterator[None]:
    """Raise ValueError where the library panics, such as for a pattern of a file that backtracks without end."""
    try:
        yield
    # a panic of a Rust library has no base class but BaseException, and its type cannot be imported
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise ValueError(
            f"the tokenizer cannot encode this text ({error}). Restore tokenizer.json from a copy, or train again."
        ) from None


def _without_special(ids: list[int]) -> list[int]:
    """<unk> instead of special tokens: a word that spells one is an unknown word."""
    # the usual case first: without such a token the list is returned as it is
    return ids if min(ids, default=UNK) >= UNK else [max(token, UNK) for token in ids]


@dataclass(frozen=True)
class Tokenizers:
    """The tokenizers of source and target; `joint` if both are the same."""

    source: Tokenizer
    target: Tokenizer
    joint: bool

    @classmethod
    def train(cls, pairs: Sequence[Pair], settings: TokenizerSettings, *, joint: bool = False) -> "Tokenizers":
        """Train one tokenizer on both sides, or one on each."""
        if joint:
            shared = Tokenizer.train([text for pair in pairs for text in (pair.source, pair.target)], settings)
            return cls(shared, shared, True)
        # one list per side, encoded by tokenizers of their own
        source, target = ([getattr(pair, side) for pair in pairs] for side in ("source", "target"))
        return cls(Tokenizer.train(source, settings), Tokenizer.train(target, settings), False)

    def links(self, pair: Pair) -> tuple[tuple[int, int], ...] | None:
        """The true alignment between tokens if the pair has one between characters."""
        if pair.spans is None:
            return None
        source, target = self.source.spans(pair.source), self.target.spans(pair.target)
        # tokens are linked if each overlaps its side of an aligned span
        links = {
            (i, j)
            # two half-open ranges overlap if each begins before the other ends
            for a, b, c, d in pair.spans
            for i, (start, end) in enumerate(source)
            if start < b and a < end
            for j, (first, last) in enumerate(target)
            if first < d and c < last
        }
        return tuple(sorted(links))
