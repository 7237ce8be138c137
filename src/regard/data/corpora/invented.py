"""Sentences of an invented language and their translation into another, with the exact word alignment.

A language has subject, verb, object; the other one subject, object, verb. What aligners find hard in real languages
occurs in it, and every word is random, so that only the pairs show what a word means:

    reordering    verb last, adjectives after the noun, place before the object
    fertility     a quarter of the nouns have two words in the target, a quarter two in the source; a third of the verbs
                  are split in the target, with a prefix after the subject
    no link       the article of the source, and the target's particles after subject and object

    lo geli guror deriz bigu ma babaz bedo   ->   hevi qezo no huzos feyo cacam wa cihu feyim ke huzoh
"""

import random
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from itertools import count as count_from
from itertools import islice

from regard.contracts import Description, Title
from regard.data.corpora.base import draw_from, random_below
from regard.data.text.pairs import Pair

VOWELS = "aeiou"
SOURCE_CONSONANTS, TARGET_CONSONANTS = "bdgklmnprst", "cfhjqvwxyz"
ARTICLE, SUBJECT_PARTICLE, OBJECT_PARTICLE = "lo", "no", "ke"
AND = ("e", "ja")
PREPOSITIONS = (("su", "po"), ("ti", "xi"), ("ma", "wa"))
MAX_WORDS = len(TARGET_CONSONANTS) ** 2 * len(VOWELS) ** 2
"""Words of two syllables."""

Numbers = Iterator[int]
AlignedWord = tuple[str, int]
"""A word and the number of its unit: words of one unit are translations of each other."""
NO_UNIT = -1


@dataclass(frozen=True)
class Phrase:
    """The words of both sides; `prefix` is the part of the target that a sentence puts elsewhere."""

    source: tuple[AlignedWord, ...]
    target: tuple[AlignedWord, ...]
    prefix: tuple[AlignedWord, ...] = field(default=())


@dataclass(frozen=True, kw_only=True)
class InventedLanguage:
    """Sentences of one to `max_clauses` clauses; frequent words have low numbers."""

    num_nouns: int = 60
    num_verbs: int = 30
    num_adjectives: int = 20
    max_clauses: int = 2

    def __post_init__(self) -> None:
        for name in ("num_nouns", "num_verbs", "num_adjectives", "max_clauses"):
            number = getattr(self, name)
            if not 1 <= number <= MAX_WORDS // 3:
                raise ValueError(f"{name} is {number}. Give 1 to {MAX_WORDS // 3}.")

    @property
    def description(self) -> Description:
        """Sentences of both languages."""
        return Description(
            reads=Title(en="sentences in an invented language", zh="一种虚构语言的句子"),
            writes=Title(en="the same sentences in another invented language", zh="另一种虚构语言的对应句子"),
        )

    def pairs(self, count: int, *, split: str = "train", seed: int = 0) -> list[Pair]:
        """`count` pairs; equal arguments give equal pairs, and no target occurs in two splits."""
        # the target decides the split, because sources that differ in an article have the same one
        texts = draw_from(split, seed, self._draw, lambda pair: pair.target)
        return [pair for _, pair in islice(texts, count)]

    def _draw(self, rng: random.Random) -> Pair:
        numbers = count_from()
        clause = self._clause(rng, numbers)
        source, target = clause.source, clause.target
        for _ in range(random_below(rng, self.max_clauses)):
            unit, clause = next(numbers), self._clause(rng, numbers)
            source = (*source, (AND[0], unit), *clause.source)
            target = (*target, (AND[1], unit), *clause.target)
        return make_pair(source, target)

    def _clause(self, rng: random.Random, numbers: Numbers) -> Phrase:
        """subject verb object place -> subject prefix place object verb."""
        subject, object_ = self._noun_phrase(rng, numbers), self._noun_phrase(rng, numbers)
        verb = self._verb(rng, numbers)
        place = self._place(rng, numbers) if rng.random() < 0.4 else Phrase((), ())
        source = (*subject.source, *verb.source, *object_.source, *place.source)
        target = (
            *subject.target,
            (SUBJECT_PARTICLE, NO_UNIT),
            *verb.prefix,
            *place.target,
            *object_.target,
            (OBJECT_PARTICLE, NO_UNIT),
            *verb.target,
        )
        return Phrase(source, target)

    def _noun_phrase(self, rng: random.Random, numbers: Numbers) -> Phrase:
        """article adjectives noun -> noun adjectives."""
        article = ((ARTICLE, NO_UNIT),) if rng.random() < 0.5 else ()
        adjectives = [self._adjective(rng, numbers) for _ in range(random_below(rng, 3))]
        noun = self._noun(rng, numbers)
        before = tuple(word for adjective in adjectives for word in adjective.source)
        after = tuple(word for adjective in adjectives for word in adjective.target)
        return Phrase((*article, *before, *noun.source), (*noun.target, *after))

    def _noun(self, rng: random.Random, numbers: Numbers) -> Phrase:
        number, unit = skewed(rng, self.num_nouns), next(numbers)
        # the second half of the words of two parts has numbers beyond the other nouns
        second = number + self.num_nouns
        source = (number, second) if number % 4 == 1 else (number,)
        target = (number, second) if number % 4 == 3 else (number,)
        return Phrase(
            tuple((spell(part, SOURCE_CONSONANTS), unit) for part in source),
            tuple((spell(part, TARGET_CONSONANTS), unit) for part in target),
        )

    def _adjective(self, rng: random.Random, numbers: Numbers) -> Phrase:
        number, unit = skewed(rng, self.num_adjectives), next(numbers)
        return Phrase(
            ((spell(number, SOURCE_CONSONANTS) + "z", unit),), ((spell(number, TARGET_CONSONANTS) + "m", unit),)
        )

    def _verb(self, rng: random.Random, numbers: Numbers) -> Phrase:
        number, unit = skewed(rng, self.num_verbs), next(numbers)
        source, target = spell(number, SOURCE_CONSONANTS) + "r", spell(number, TARGET_CONSONANTS) + "h"
        prefix = ((spell(number, TARGET_CONSONANTS) + "s", unit),) if number % 3 == 2 else ()
        return Phrase(((source, unit),), ((target, unit),), prefix)

    def _place(self, rng: random.Random, numbers: Numbers) -> Phrase:
        """preposition noun phrase -> noun phrase postposition."""
        source, target = PREPOSITIONS[random_below(rng, len(PREPOSITIONS))]
        unit, phrase = next(numbers), self._noun_phrase(rng, numbers)
        return Phrase(((source, unit), *phrase.source), (*phrase.target, (target, unit)))


def skewed(rng: random.Random, number: int) -> int:
    """A random integer in 0 .. number - 1, low ones more often."""
    return int(number * rng.random() ** 2)


def spell(number: int, consonants: str) -> str:
    """A word of two syllables, different for every number below MAX_WORDS."""
    syllables = len(consonants) * len(VOWELS)
    # the frequent words differ in both syllables
    parts = (number % syllables, (number // syllables + 7 * number) % syllables)
    return "".join(consonants[part // len(VOWELS)] + VOWELS[part % len(VOWELS)] for part in parts)


def make_pair(source: Sequence[AlignedWord], target: Sequence[AlignedWord]) -> Pair:
    """The texts, and the characters of all pairs of words of one unit."""
    sides = []
    for words in (source, target):
        ends, length = [], 0
        for word, unit in words:
            ends.append((length, length + len(word), unit))
            # one space
            length += len(word) + 1
        sides.append(ends)
    spans = tuple(
        (a, b, c, d) for a, b, unit in sides[0] for c, d, other in sides[1] if unit == other and unit != NO_UNIT
    )
    return Pair(" ".join(word for word, _ in source), " ".join(word for word, _ in target), spans, "invented")
