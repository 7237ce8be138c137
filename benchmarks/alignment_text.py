"""Gold alignments in the form of a training text: the same case, escapes and spaces, with the words still known.

A gold standard is split into words. A model of plain text reads them as plain text, without a space before a comma;
aligners read words, so plain training text is split like the gold standard.
"""

import html
import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from regard.data.corpora import InventedLanguage, Multi30kCorpus, SyntheticCorpus, TatoebaCorpus
from regard.data.text import Tokenizers
from regard.metrics import Gold, read_gold

EUROPARL = "508 sentences of Europarl, RWTH Aachen"
WORD = re.compile(r"'s\b|\w+(?:-\w+|'(?!s\b)\w+)*|[^\w\s]")
"""A word of plain text as the gold standard has them: hyphens inside, a genitive 's and punctuation on their own."""
NO_SPACE_BEFORE, NO_SPACE_AFTER = {".", ",", "?", "!", ":", ";", ")", "%", "'", "'s"}, {"("}
ESCAPES = str.maketrans({"'": "&apos;", '"': "&quot;", "&": "&amp;", "|": "&#124;", "[": "&#91;", "]": "&#93;"})
"""Those of the Moses tokenizer, which prepared the tokenised form of Multi30k."""


@dataclass(frozen=True)
class Sentence:
    """A text, and the characters [start, end) of each of its words."""

    text: str
    spans: tuple[tuple[int, int], ...]

    @classmethod
    def of(cls, words: Sequence[str], *, is_plain: bool) -> "Sentence":
        """Words with spaces between them; plain text has none beside most punctuation."""
        text, spans = "", []
        for number, word in enumerate(words):
            is_joined = is_plain and (word in NO_SPACE_BEFORE or (number and words[number - 1] in NO_SPACE_AFTER))
            text += " " if number and not is_joined else ""
            spans.append((len(text), len(text) + len(word)))
            text += word
        return cls(text, tuple(spans))

    def words_of(self, tokens: Sequence[tuple[int, int]]) -> list[int]:
        """For each token, given by its characters, the number of the word that has its last character."""
        ends = [end for _, end in self.spans]
        # a token of a space alone belongs to the next word
        return [sum(end <= last - 1 for end in ends) for _, last in tokens]


@dataclass(frozen=True, kw_only=True)
class AlignedGold:
    """Sentence pairs with gold links, as a model reads them (`texts`) and as an aligner does (`words`)."""

    name: str
    setting: str
    texts: list[tuple[Sentence, Sentence]]
    words: list[tuple[list[str], list[str]]]
    links: list[Gold]


def is_plain(corpus: Any) -> bool:
    """Whether the training text is plain text, neither tokenised nor lower-cased."""
    return not corpus.tokenised


def words_of(corpus: Any, source: str, target: str) -> tuple[list[str], list[str]]:
    """The words of a training pair for an aligner, in lower case."""
    if not is_plain(corpus):
        return source.split(), target.split()
    first, second = (WORD.findall(text.lower().replace("’", "'")) for text in (source, target))
    return first, second


def gold_for(corpus: Any, tokenizers: Tokenizers, data: Path, sentences: int | None) -> AlignedGold | None:
    """The gold standard for models of this corpus, if there is one; `sentences` limits its length."""
    if isinstance(corpus, SyntheticCorpus) and isinstance(corpus.content, InventedLanguage):
        return invented_gold(corpus, tokenizers, sentences)
    if isinstance(corpus, (Multi30kCorpus, TatoebaCorpus)) and set(corpus.languages) == {"en", "de"}:
        return europarl_gold(corpus, data / "word-alignment", sentences)
    return None


def invented_gold(corpus: SyntheticCorpus, tokenizers: Tokenizers, sentences: int | None) -> AlignedGold:
    """The test split of the invented language, where a token is a word."""
    pairs = corpus.read("test")[:sentences]
    words = [(pair.source.split(), pair.target.split()) for pair in pairs]
    return AlignedGold(
        name="test split, exact",
        setting="invented language",
        texts=[(Sentence.of(source, is_plain=False), Sentence.of(target, is_plain=False)) for source, target in words],
        words=words,
        links=[Gold(frozenset(tokenizers.links(pair) or ())) for pair in pairs],
    )


def europarl_gold(corpus: Any, folder: Path, sentences: int | None) -> AlignedGold:
    """The gold standard of German and English, in the direction of the corpus."""
    lines = {name: (folder / f"deen.{name}").read_text(encoding="utf-8").splitlines() for name in ("de", "en")}
    source, target = corpus.languages
    rows = [[line.split() for line in pair] for pair in zip(lines[source], lines[target], strict=True)][:sentences]
    gold = read_gold(folder / "deen.talp")[:sentences]
    if source == "en":
        # the file has German first
        gold = [Gold(*(frozenset((i, j) for j, i in links) for links in (one.sure, one.possible))) for one in gold]
    plain = is_plain(corpus)
    shown = rows if plain else [[escaped(words) for words in row] for row in rows]
    form = "plain" if plain else "tok"
    return AlignedGold(
        name=EUROPARL,
        setting=f"{type(corpus).__name__.removesuffix('Corpus').lower()} {source}-{target} {form}",
        texts=[(Sentence.of(row[0], is_plain=plain), Sentence.of(row[1], is_plain=plain)) for row in shown],
        words=[
            ([word.lower() for word in row[0]], [word.lower() for word in row[1]]) if plain else (row[0], row[1])
            for row in shown
        ],
        links=gold,
    )


def escaped(words: Sequence[str]) -> list[str]:
    """Words as in the tokenised form of Multi30k: in lower case, with Moses' escapes."""
    assert all(html.unescape(word) == word for word in words), "the gold standard has no escapes"
    return [word.lower().translate(ESCAPES) for word in words]
