import math
import random

import pytest

from regard.metrics import FastAlign, IBMModel1, alignment_quality, read_numbered_gold

BOOKS = [(["das", "Haus"], ["the", "house"]), (["das", "Buch"], ["the", "book"]), (["ein", "Buch"], ["a", "book"])]


def one_iteration_by_hand(pairs, *, null_prior, tension):
    """Expected counts of the first iteration in plain Python, and the log-likelihood before it."""
    vocabulary = {word for _, target in pairs for word in target}
    counts, log_likelihood = {}, 0.0
    for source, target in pairs:
        for j, word in enumerate(target, start=1):
            raw = [math.exp(-tension * abs(i / len(source) - j / len(target))) for i in range(1, len(source) + 1)]
            prior = [null_prior, *((1 - null_prior) * value / sum(raw) for value in raw)]
            terms = [value / len(vocabulary) for value in prior]
            log_likelihood += math.log(sum(terms))
            for origin, term in zip([None, *source], terms, strict=True):
                counts[word, origin] = counts.get((word, origin), 0.0) + term / sum(terms)
    return counts, log_likelihood


def random_pairs(rng, count):
    """Pairs in which word sN is always translated as tN, in the same order, with words left out on both sides."""
    pairs = []
    for _ in range(count):
        words = [int(30 * rng.random()) for _ in range(4 + int(6 * rng.random()))]
        source = [f"s{word}" for word in words if rng.random() < 0.9]
        target = [f"t{word}" for word in words if rng.random() < 0.9]
        if source and target:
            pairs.append((source, target))
    return pairs


def test_one_iteration_by_hand():
    pairs = [*BOOKS, (["ein", "Haus", "und"], ["a", "house"])]
    model = FastAlign.fit(pairs, iterations=1, null_prior=0.2, tension=3.0)
    counts, log_likelihood = one_iteration_by_hand(pairs, null_prior=0.2, tension=3.0)
    assert model.log_likelihoods[0] == pytest.approx(log_likelihood)
    for (word, origin), count in counts.items():
        total = sum(value for (_, other), value in counts.items() if other == origin)
        assert model.probability(word, origin) == pytest.approx(count / total)


@pytest.mark.parametrize("tension", [0.0, 4.0, 40.0])
def test_likelihood_rises_and_probabilities_sum_to_one(tension):
    pairs = random_pairs(random.Random(0), 200)
    model = FastAlign.fit(pairs, iterations=12, tension=tension)
    assert len(model.log_likelihoods) == 13
    assert all(before < after for before, after in zip(model.log_likelihoods, model.log_likelihoods[1:], strict=False))
    targets = {word for _, target in pairs for word in target}
    for source in ("s3", "s17", None):
        assert sum(model.probability(word, source) for word in targets) == pytest.approx(1)


def test_lambda_follows_the_order_of_the_words():
    rng = random.Random(1)
    ordered = random_pairs(rng, 300)
    # in random order the position of the source word has no relation to that of the target word
    shuffled = [(source, sorted(target, key=lambda _: rng.random())) for source, target in ordered]
    assert FastAlign.fit(ordered, iterations=10).tension > 8
    assert FastAlign.fit(shuffled, iterations=10).tension < 1


def test_without_the_diagonal_it_is_model_1_with_a_fixed_null_prior():
    # with one source word and a prior of 1/2 both models share the target word equally between the two
    pairs = [([f"s{i % 7}"], [f"t{i % 7}", "uh"]) for i in range(40)]
    ours, other = FastAlign.fit(pairs, null_prior=0.5, tension=0.0), IBMModel1.fit(pairs)
    assert ours.probability("t3", "s3") == pytest.approx(other.probability("t3", "s3"))
    assert ours.log_likelihoods == pytest.approx(other.log_likelihoods)


def test_repeated_words_are_linked_along_the_diagonal():
    model = FastAlign.fit(random_pairs(random.Random(2), 300))
    assert model.align(["s1", "s2", "s1"], ["t1", "t2", "t1"]) == [(0, 0), (1, 1), (2, 2)]
    # Model 1 cannot distinguish the two
    assert IBMModel1.fit(random_pairs(random.Random(2), 300)).align(["s1", "s2", "s1"], ["t1", "t2", "t1"])[2] == (0, 2)


def test_unknown_words_are_linked_along_the_diagonal_and_empty_sentences_are_not():
    model = FastAlign.fit([*BOOKS, ([], ["alone"]), (["allein"], [])])
    assert model.align(["das", "Auto"], ["the", "car"]) == [(0, 0), (1, 1)]
    assert model.align(["das"], []) == model.align([], ["the"]) == []
    # a pair with an empty source is skipped
    assert model.probability("alone", None) == 0


def test_variational_bayes_takes_probability_from_rare_words():
    pairs = [*BOOKS * 10, (["das", "selten"], ["the", "once"])]
    maximum, bayes = FastAlign.fit(pairs), FastAlign.fit(pairs, dirichlet=0.01)
    assert bayes.probability("the", "selten") < maximum.probability("the", "selten")
    # exp(psi(c)) < c: the values sum to less than 1, most of all for a word that occurs once
    sums = {word: sum(bayes.probability(target, word) for target in ("the", "once")) for word in ("das", "selten")}
    assert sums["selten"] < 1
    assert bayes.align(["das", "Buch"], ["the", "book"]) == [(0, 0), (1, 1)]


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"iterations": 0}, "iterations is 0"),
        ({"null_prior": 1.0}, "null_prior is 1.0, but it is a probability"),
        ({"tension": -1.0}, "tension is -1.0"),
        ({"dirichlet": 0.0}, "dirichlet is 0.0"),
    ],
)
def test_wrong_arguments_are_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        FastAlign.fit(BOOKS, **arguments)
    with pytest.raises(ValueError, match="no pair with words on both sides"):
        FastAlign.fit([([], ["a"]), (["a"], [])])


def test_is_better_than_model_1_on_spanish_and_english(word_alignment):
    def lines(name):
        return [line.split() for line in (word_alignment / "esen" / name).read_text(encoding="utf-8").splitlines()]

    pairs = list(zip(lines("dev.en"), lines("dev.es"), strict=True))
    gold = read_numbered_gold(word_alignment / "esen" / "dev.key", count=len(pairs))
    model = FastAlign.fit(zip(lines("train.full.en"), lines("train.full.es"), strict=True))
    assert list(model.log_likelihoods) == sorted(model.log_likelihoods)
    # 0.43 for Model 1; a Model 2 with free positions has 0.449
    assert alignment_quality([model.align(*pair) for pair in pairs], gold).f1 >= 0.57
