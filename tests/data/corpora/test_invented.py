"""The invented language: every word has its translation, the alignment is exact, and it has what aligners find hard."""

from itertools import pairwise

import pytest

from regard.data.corpora import InventedLanguage
from regard.data.corpora.invented import (
    ARTICLE,
    MAX_WORDS,
    OBJECT_PARTICLE,
    SOURCE_CONSONANTS,
    SUBJECT_PARTICLE,
    TARGET_CONSONANTS,
    spell,
)


@pytest.fixture(scope="module")
def pairs():
    return InventedLanguage().pairs(2000)


def word_links(pair):
    """The aligned words by their numbers, from the characters."""
    source, target = ([text[:i].count(" ") for i in range(len(text))] for text in (pair.source, pair.target))
    return {(source[a], target[c]) for a, _, c, _ in pair.spans}


def test_spans_are_whole_words(pairs):
    for pair in pairs[:200]:
        for a, b, c, d in pair.spans:
            for text, start, end in ((pair.source, a, b), (pair.target, c, d)):
                assert " " not in text[start:end]
                assert f" {text} "[start] == " " == f" {text} "[end + 1]


def test_only_articles_and_particles_have_no_link(pairs):
    without = [set(), set()]
    for pair in pairs:
        links = word_links(pair)
        for side, text in enumerate((pair.source, pair.target)):
            linked = {link[side] for link in links}
            without[side] |= {word for number, word in enumerate(text.split()) if number not in linked}
    assert without == [{ARTICLE}, {SUBJECT_PARTICLE, OBJECT_PARTICLE}]


def test_a_word_has_the_same_translations_everywhere(pairs):
    translations = {}
    for pair in pairs:
        source, target, links = pair.source.split(), pair.target.split(), word_links(pair)
        for i, word in enumerate(source):
            if any(link[0] == i for link in links):
                found = {target[j] for source_number, j in links if source_number == i}
                assert translations.setdefault(word, found) == found


def test_it_has_reordering_and_fertility(pairs):
    crossing = fertile = joined = split = 0
    for pair in pairs:
        links = sorted(word_links(pair))
        crossing += any(j > other for (_, j), (_, other) in pairwise(links))
        counts = [sum(link[0] == i for link in links) for i in range(len(pair.source.split()))]
        fertile += max(counts) == 2
        joined += max(sum(link[1] == j for link in links) for j in range(len(pair.target.split()))) == 2
        split += any(j + 1 < other and i == same for (i, j), (same, other) in pairwise(links))
    # the verb moves behind the object in every clause
    assert crossing == len(pairs)
    assert min(fertile, joined, split) > len(pairs) / 5


def test_words_are_distinct():
    for consonants in (SOURCE_CONSONANTS, TARGET_CONSONANTS):
        assert len({spell(number, consonants) for number in range(MAX_WORDS)}) == MAX_WORDS


def test_clauses_are_limited():
    assert not any(" ja " in pair.target for pair in InventedLanguage(max_clauses=1).pairs(200))
    assert max(pair.target.count(" ja ") for pair in InventedLanguage(max_clauses=3).pairs(200)) == 2


@pytest.mark.parametrize("settings", [{"num_nouns": 0}, {"max_clauses": 10_000}])
def test_sizes_out_of_range_are_refused(settings):
    with pytest.raises(ValueError, match="Give 1 to 833"):
        InventedLanguage(**settings)
