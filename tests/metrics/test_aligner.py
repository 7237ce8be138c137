import math

import pytest

from regard.metrics import DiagonalAligner, IBMModel1, alignment_quality, read_numbered_gold

BOOKS = [(["das", "Haus"], ["the", "house"]), (["das", "Buch"], ["the", "book"]), (["ein", "Buch"], ["a", "book"])]

# the example of Koehn, Statistical Machine Translation, 2010, figure 4.4: t(target | source) after each iteration
KOEHN = {
    ("the", "das"): (0.5, 0.6364, 0.7479),
    ("book", "das"): (0.25, 0.1818, 0.1208),
    ("house", "das"): (0.25, 0.1818, 0.1313),
    ("the", "Buch"): (0.25, 0.1818, 0.1208),
    ("book", "Buch"): (0.5, 0.6364, 0.7479),
    ("a", "Buch"): (0.25, 0.1818, 0.1313),
    ("book", "ein"): (0.5, 0.4286, 0.3466),
    ("a", "ein"): (0.5, 0.5714, 0.6534),
    ("the", "Haus"): (0.5, 0.4286, 0.3466),
    ("house", "Haus"): (0.5, 0.5714, 0.6534),
}


@pytest.mark.parametrize("iterations", [1, 2, 3])
def test_probabilities_equal_the_textbook(iterations):
    model = IBMModel1.fit(BOOKS, iterations=iterations, null_words=0)
    for (target, source), expected in KOEHN.items():
        assert model.probability(target, source) == pytest.approx(expected[iterations - 1], abs=5e-5)


def test_one_iteration_with_the_empty_word_by_hand():
    # every target word is shared by 3 source words, so each pair of a sentence counts 1/3
    model = IBMModel1.fit(BOOKS, iterations=1)
    assert model.probability("the", None) == pytest.approx((2 / 3) / (6 / 3))
    assert model.probability("house", None) == pytest.approx((1 / 3) / (6 / 3))
    assert model.probability("the", "das") == pytest.approx((2 / 3) / (4 / 3))
    # uniform over 4 words before; then the sums of t over NULL and both words, over 3
    assert model.log_likelihoods[0] == pytest.approx(6 * math.log(1 / 4))
    sums = (1 / 3 + 1 / 2 + 1 / 2, 1 / 6 + 1 / 4 + 1 / 2, 1 / 3 + 1 / 2 + 1 / 4) * 2
    assert model.log_likelihoods[1] == pytest.approx(sum(math.log(total / 3) for total in sums))


def test_word_translations_are_learned():
    model = IBMModel1.fit(BOOKS, iterations=20)
    assert model.align(["das", "Buch"], ["the", "book"]) == [(0, 0), (1, 1)]
    assert model.align(["Buch", "das"], ["the", "book"]) == [(1, 0), (0, 1)]


def test_likelihood_rises_and_probabilities_sum_to_one():
    model = IBMModel1.fit(BOOKS, iterations=12)
    assert len(model.log_likelihoods) == 13
    assert all(before < after for before, after in zip(model.log_likelihoods, model.log_likelihoods[1:], strict=False))
    for source in ("das", "Haus", "Buch", "ein", None):
        assert sum(model.probability(target, source) for target in ("the", "house", "book", "a")) == pytest.approx(1)


def test_the_empty_word_aligns_to_words_that_occur_in_every_target():
    pairs = [([f"s{i}"], [f"t{i}", "uh"]) for i in range(20)]
    model = IBMModel1.fit(pairs, iterations=10)
    assert model.align(["s3"], ["t3", "uh"]) == [(0, 0)]


def test_unknown_words_and_empty_sentences_have_no_links():
    model = IBMModel1.fit([*BOOKS, ([], ["alone"]), (["allein"], [])])
    assert model.align(["das", "Auto"], ["the", "car"]) == [(0, 0)]
    assert model.align(["das"], []) == model.align([], ["the"]) == []
    assert model.probability("car", "das") == model.probability("the", "Auto") == model.probability("a", "Haus") == 0


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="no pair with words on both sides"):
        IBMModel1.fit([([], []), (["a"], [])])
    with pytest.raises(ValueError, match="iterations=0, null_words=1"):
        IBMModel1.fit(BOOKS, iterations=0)


def test_diagonal_alignment():
    diagonal = DiagonalAligner()
    assert diagonal.align("abc", "xyz") == [(0, 0), (1, 1), (2, 2)]
    assert diagonal.align("abcdef", "xyz") == [(0, 0), (2, 1), (4, 2)]
    assert diagonal.align("ab", "wxyz") == [(0, 0), (1, 1), (1, 2), (1, 3)]
    assert diagonal.align("a", "xy") == [(0, 0), (0, 1)]
    assert diagonal.align("", "xy") == diagonal.align("ab", "") == []


def test_learned_alignments_of_spanish_and_english_are_better_than_the_diagonal(word_alignment):
    def lines(name):
        return [line.split() for line in (word_alignment / "esen" / name).read_text(encoding="utf-8").splitlines()]

    pairs = list(zip(lines("dev.en"), lines("dev.es"), strict=True))
    gold = read_numbered_gold(word_alignment / "esen" / "dev.key", count=len(pairs))
    model = IBMModel1.fit(zip(lines("train.full.en"), lines("train.full.es"), strict=True))
    assert list(model.log_likelihoods) == sorted(model.log_likelihoods)
    learned = alignment_quality([model.align(*pair) for pair in pairs], gold).f1
    fixed = alignment_quality([DiagonalAligner().align(*pair) for pair in pairs], gold).f1
    assert learned >= 0.41
    assert fixed < 0.3
