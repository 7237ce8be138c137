"""Sampling: frequencies, the tokens of top_k and top_p, and equal samples in any batch."""

import pytest
import torch
from scipy import stats

from regard.contracts import EOS, LengthLimit, PaddedTokens
from regard.decoding import Sampling, decode, decode_all
from regard.decoding.sampling import uniform
from tests.decoding.fakes import LIMIT, Attending, Markov, markov, sources

LOGITS = torch.tensor([9.0, 9.0, 0.3, 1.2, -0.5, 2.0, 0.9, -3.0], dtype=torch.float64)


def shares(search, count=4000):
    """How often each token is drawn first."""
    drawn = search.draw(LOGITS.expand(count, -1), torch.arange(count), 1)
    return drawn.bincount(minlength=len(LOGITS))


@pytest.mark.parametrize("temperature", [1.0, 0.5, 2.0])
def test_frequencies_are_probabilities(temperature):
    counts = shares(Sampling(temperature=temperature, seed=1))
    assert counts[:2].sum() == 0
    expected = (LOGITS[2:] / temperature).softmax(-1) * 4000
    assert stats.chisquare(counts[2:].numpy(), expected.numpy()).pvalue > 0.01


def test_whole_sequences_follow_the_model():
    model, count = markov(vocab_size=5, num_sources=1, ending=1.0), 3000
    actual = decode(model, PaddedTokens.from_lists([[3, EOS]] * count), search=Sampling(), limit=LengthLimit(0.0, 3))
    model.table[:, :, :2] = float("-inf")
    one, two, three = ((model.table[0] * (1 + step / 10)).softmax(-1) for step in range(3))
    counts_of_sequences, expected = {}, {}
    for (hypothesis,) in actual:
        key = (hypothesis.ids, hypothesis.finished)
        counts_of_sequences[key] = counts_of_sequences.get(key, 0) + 1
    for first in (2, 3, 4):
        for second in (2, 3, 4):
            for third in (2, 3, 4):
                ids = (first, second, third)
                end = ids.index(EOS) if EOS in ids else 3
                key = (ids[:end], EOS in ids)
                share = (one[1, first] * two[first, second] * three[second, third]).item()
                # what follows <eos> is summed out
                expected[key] = expected.get(key, 0.0) + share
    assert set(counts_of_sequences) <= set(expected)
    counts = [counts_of_sequences.get(key, 0) for key in expected]
    assert stats.chisquare(counts, [count * share for share in expected.values()]).pvalue > 0.01


@pytest.mark.parametrize(
    ("search", "tokens"),
    [
        (Sampling(top_k=1), {5}),
        (Sampling(top_k=3), {5, 3, 6}),
        (Sampling(top_k=99), {2, 3, 4, 5, 6, 7}),
        # shares without <pad> and <bos>: 5 has .48, 3 has .22, 6 has .16, 2 has .09, 4 has .04, 7 has .003
        (Sampling(top_p=0.47), {5}),
        (Sampling(top_p=0.5), {5, 3}),
        (Sampling(top_p=0.75), {5, 3, 6}),
        (Sampling(top_p=1.0), {2, 3, 4, 5, 6, 7}),
        # of two, 5 has .69
        (Sampling(top_k=2, top_p=0.68), {5}),
        (Sampling(top_k=2, top_p=0.7), {5, 3}),
        # 3 is e^-0.8 = .45 of 5, 6 is .33, 2 is .18, 4 is .08, 7 is .007
        (Sampling(min_p=0.0), {2, 3, 4, 5, 6, 7}),
        (Sampling(min_p=0.17), {5, 3, 6, 2}),
        (Sampling(min_p=0.4), {5, 3}),
        (Sampling(min_p=1.0), {5}),
        (Sampling(top_k=2, min_p=0.17), {5, 3}),
    ],
    ids=str,
)
def test_sampling_draws_only_from_the_kept_tokens(search, tokens):
    counts = shares(search)
    assert set(counts.nonzero()[:, 0].tolist()) == tokens
    chosen = sorted(tokens)
    expected = LOGITS[chosen].softmax(-1) * 4000
    if len(tokens) > 1:
        assert stats.chisquare(counts[chosen].numpy(), expected.numpy()).pvalue > 0.01


def test_ties_are_kept_in_their_order():
    drawn = Sampling(top_k=2).draw(torch.zeros(500, 8), torch.arange(500), 1)
    assert set(drawn.tolist()) == {2, 3}


def test_seeds_and_batches():
    model, rows = Attending().double(), sources(20, longest=4)
    first = decode_all(
        model, rows, search=Sampling(seed=5), tokens_per_batch=1000, limit=LIMIT, stack=PaddedTokens.from_lists
    )
    assert first == decode_all(
        model, rows, search=Sampling(seed=5), tokens_per_batch=1000, limit=LIMIT, stack=PaddedTokens.from_lists
    )
    small = decode_all(
        model, rows, search=Sampling(seed=5), tokens_per_batch=12, limit=LIMIT, stack=PaddedTokens.from_lists
    )
    assert [row[0].ids for row in first] == [row[0].ids for row in small]
    other = decode_all(model, rows, search=Sampling(seed=6), limit=LIMIT, stack=PaddedTokens.from_lists)
    assert sum(one[0].ids == two[0].ids for one, two in zip(first, other, strict=True)) < 10
    equal = decode_all(model, [rows[0]] * 20, search=Sampling(seed=5), limit=LIMIT, stack=PaddedTokens.from_lists)
    assert len({row[0].ids for row in equal}) > 10


def test_noise_is_uniform_and_independent():
    rows = torch.arange(20_000)
    noise = uniform(7, rows, 1)
    assert noise.min() >= 0 and noise.max() < 1
    assert stats.kstest(noise.numpy(), "uniform").pvalue > 0.01
    steps = torch.tensor([1, 2, 1, 3])
    apart = [uniform(7, rows[place : place + 1], step) for place, step in enumerate(steps.tolist())]
    assert torch.equal(uniform(7, rows[:4], steps), torch.cat(apart))
    for other in (uniform(7, rows, 2), uniform(8, rows, 1), uniform(7, rows + 1, 1), uniform(-(2**70), rows, 1)):
        assert abs(torch.corrcoef(torch.stack([noise, other]))[0, 1]) < 0.02


def test_log_prob_is_the_models_own():
    model = Markov(LOGITS.expand(1, 8, 8).clone())
    (hypothesis,) = decode(
        model, PaddedTokens.from_lists([[EOS]]), search=Sampling(temperature=0.1, top_k=1), limit=LengthLimit(0.0, 2)
    )[0]
    assert hypothesis.ids == (5, 5)
    own = LOGITS.log_softmax(-1)[5] + (1.1 * LOGITS).log_softmax(-1)[5]
    assert hypothesis.score == hypothesis.log_prob == pytest.approx(own.item())


@pytest.mark.parametrize(
    ("settings", "sentence"),
    [
        ({"temperature": 0.0}, r"temperature is 0, which always takes the best token\. Use Greedy\(\)"),
        ({"temperature": -1.0}, "temperature is -1.0, expected a number above 0"),
        ({"top_k": 0}, "top_k is 0, expected 1 token or more"),
        ({"top_p": 0.0}, "top_p is 0.0, expected a share above 0"),
        ({"top_p": 1.5}, "top_p is 1.5, expected a share above 0"),
        ({"min_p": 1.5}, "min_p is 1.5, expected a share of the best token's"),
    ],
)
def test_invalid_settings_raise_errors(settings, sentence):
    with pytest.raises(ValueError, match=sentence):
        Sampling(**settings)
