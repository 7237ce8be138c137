"""Vocabularies learned from text with the tokenizers library.

bpe         merges the most frequent neighbours. Sennrich, Haddow and Birch 2016. https://arxiv.org/abs/1508.07909
words       splits at whitespace: for text that is tokenised already
characters  every character for itself

White space is one space, or, with `spaces="kept"`, as it stands (but for words); `▁` marks where a word begins (bpe).
Pieces never cross from letters to digits to punctuation, nor from Chinese or Japanese to other writing; so
Chinese needs no spaces, and text that spells a mark, such as "<eos>", is never one piece. Ties are broken by spelling:
the same text gives the same vocabulary.
"""

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, get_args

from tokenizers import Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, trainers

from regard.contracts import SPECIAL_TOKENS, UNK, check_name

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


def learn(lines: Iterable[str], settings: TokenizerSettings) -> Tokenizer:
    """A tokenizer of the library whose ids begin with the four marks."""
    tokenizer = (_bpe if settings.kind == "bpe" else _lookup)(lines, settings)
    if tokenizer.get_vocab_size() <= len(SPECIAL_TOKENS):
        raise ValueError(
            f"there is no text to learn a vocabulary from, or nothing in it occurs {settings.min_count} times."
        )
    tokenizer.add_special_tokens(list(SPECIAL_TOKENS))
    return tokenizer


def _bpe(lines: Iterable[str], settings: TokenizerSettings) -> Tokenizer:
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


def _lookup(lines: Iterable[str], settings: TokenizerSettings) -> Tokenizer:
    """Words or characters: a table of the most frequent."""
    normalizer, words = _normalizer(settings), settings.kind == "words"
    counts: Counter[str] = Counter()
    for line in lines:
        text = normalizer.normalize_str(line)
        counts.update(text.split(" ") if words else text)
    for never in ("", *SPECIAL_TOKENS):
        counts.pop(never, None)
    tokens = [*SPECIAL_TOKENS, *_most_frequent(counts, settings)]
    tokenizer = Tokenizer(models.WordLevel({token: place for place, token in enumerate(tokens)}, _UNKNOWN))
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


def _subwords(model: models.Model, settings: TokenizerSettings) -> Tokenizer:
    tokenizer = Tokenizer(model)
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
