"""Greedy and beam search against exhaustive search, against each other, and in batches of any size."""

import itertools

import pytest
import torch

from regard.contracts import BOS, EOS, PAD, UNK, LengthLimit, PaddedTokens
from regard.decoding import Beam, Greedy, Sampling, beam, decode, decode_all, score_all
from regard.decoding import greedy as greedy_module
from tests.decoding.fakes import LIMIT, Attending, Markov, markov, padded, sources


def log_prob(model, source, ids):
    """log p(ids <eos> | source), a sum over the table."""
    tokens = [*ids, EOS]
    output = model.features(PaddedTokens.from_lists([source]), PaddedTokens.from_lists([[BOS, *tokens[:-1]]]))
    logits = output.features[0]
    return logits.log_softmax(-1)[range(len(tokens)), tokens].sum().item()


def all_answers(vocab_size, limit):
    for length in range(limit):
        yield from itertools.product(range(UNK, vocab_size), repeat=length)


@pytest.mark.parametrize("alpha", [0.0, 1.0, 0.6])
def test_a_wide_beam_is_exhaustive(alpha):
    model, limit = markov(vocab_size=6, num_sources=3), 4
    answers = list(all_answers(6, limit))
    rows = [[3, EOS], [4, 5, EOS], [5, EOS]]
    # continued and finished hypotheses of the last step must both fit
    search = Beam(size=4**limit, length_penalty=alpha, num_best=len(answers))
    actual = decode(model, PaddedTokens.from_lists(rows), search=search, limit=LengthLimit(0.0, limit))
    for row, hypotheses in zip(rows, actual, strict=True):
        scored = {ids: log_prob(model, row, ids) / ((6 + len(ids)) / 6) ** alpha for ids in answers}
        expected = sorted(answers, key=lambda ids: -scored[ids])
        assert [hypothesis.ids for hypothesis in hypotheses] == expected
        assert all(hypothesis.finished for hypothesis in hypotheses)
        for hypothesis in hypotheses:
            assert hypothesis.score == pytest.approx(scored[hypothesis.ids], abs=1e-9)
            assert hypothesis.log_prob == pytest.approx(log_prob(model, row, hypothesis.ids), abs=1e-9)


def reference_beam(model, row, *, size, limit, alpha):
    """Plain beam search for one source."""
    live, finished = [((), 0.0)], []
    for step in range(limit):
        table = (model.table[row[0] % len(model.table)] * (1 + step / 10)).log_softmax(-1).tolist()
        candidates = [
            ((*ids, token), total + table[ids[-1] if ids else BOS][token])
            for ids, total in live
            for token in range(EOS, len(table))
        ]
        candidates.sort(key=lambda pair: -pair[1])
        finished += [pair for pair in candidates[:size] if pair[0][-1] == EOS]
        live = [pair for pair in candidates if pair[0][-1] != EOS][:size]
        if len(finished) >= size:
            live = []
            break

    def rank(pairs):
        scored = [(ids, total / ((5 + len(ids)) / 6) ** alpha) for ids, total in pairs]
        return sorted(scored, key=lambda pair: -pair[1])

    ranked = rank(finished) + rank(live)
    return [(tuple(token for token in ids if token != EOS), score, ids[-1] == EOS) for ids, score in ranked[:size]]


@pytest.mark.parametrize("size", [1, 2, 3, 5])
@pytest.mark.parametrize("ending", [-1.0, 0.0, 2.0])
def test_beam_search_equals_the_plain_algorithm(size, ending):
    model = markov(vocab_size=9, num_sources=8, seed=1, ending=ending)
    rows = sources(12, longest=5, vocab_size=12)
    search = Beam(size=size, num_best=size)
    actual = decode(model, PaddedTokens.from_lists(rows), search=search, limit=LengthLimit(1.0, 3))
    for row, hypotheses in zip(rows, actual, strict=True):
        expected = reference_beam(model, row, size=size, limit=len(row) + 3, alpha=1.0)
        assert [(got.ids, got.finished) for got in hypotheses] == [(ids, finished) for ids, _, finished in expected]
        for got, (_, score, _) in zip(hypotheses, expected, strict=True):
            assert got.score == pytest.approx(score, abs=1e-9)


def test_a_beam_of_one_equals_greedy_search():
    model, source = Attending(), PaddedTokens.from_lists(sources(20))
    greedy, beam = (
        decode(model, source, limit=LIMIT),
        decode(model, source, search=Beam(size=1, length_penalty=0.0), limit=LIMIT),
    )
    assert greedy == beam
    penalised = decode(model, source, search=Beam(size=1), limit=LIMIT)
    for (one,), (other,) in zip(greedy, penalised, strict=True):
        assert (one.ids, one.log_prob, one.finished) == (other.ids, other.log_prob, other.finished)
        assert other.score == one.log_prob / ((5 + len(one.ids) + one.finished) / 6)


SEARCHES = [Greedy(), Beam(size=4, num_best=3), Sampling(seed=3), Sampling(top_k=4, top_p=0.9, temperature=1.5)]


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_outputs_do_not_depend_on_the_batch(search):
    model, rows = Attending().double(), sources(17)
    together = decode(model, PaddedTokens.from_lists(rows), search=search, return_weights=True, limit=LIMIT)
    alone = [
        decode(
            model,
            PaddedTokens.from_lists([row]),
            search=search,
            return_weights=True,
            numbers=torch.tensor([number]),
            limit=LIMIT,
        )[0]
        for number, row in enumerate(rows)
    ]
    wide = decode(model, padded(rows, 5), search=search, return_weights=True, limit=LIMIT)
    order = torch.randperm(len(rows))
    mixed = decode(
        model,
        PaddedTokens.from_lists([rows[i] for i in order]),
        search=search,
        return_weights=True,
        numbers=order,
        limit=LIMIT,
    )
    mixed = [mixed[place] for place in order.argsort()]
    assert len({len(row[0].ids) for row in together}) > 3
    for other in (alone, wide, mixed):
        for expected, got in zip(together, other, strict=True):
            assert [hypothesis.ids for hypothesis in expected] == [hypothesis.ids for hypothesis in got]
            for one, two in zip(expected, got, strict=True):
                assert one.log_prob == pytest.approx(two.log_prob, abs=1e-9)
                torch.testing.assert_close(one.weights, two.weights)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
@pytest.mark.parametrize(("every", "share"), [(1, 0), (4, 0), (4, 1), (1000, 0.25)])
def test_outputs_do_not_depend_on_the_interval_of_transfers(search, every, share, monkeypatch):
    model, rows = Attending().double(), PaddedTokens.from_lists(sources(17))
    expected = decode(model, rows, search=search, return_weights=True, limit=LIMIT)
    for module in (greedy_module, beam):
        monkeypatch.setattr(module, "transfer_interval", lambda device: every)
        monkeypatch.setattr(module, "compaction_pays", lambda closed, count: closed > share * count)
    actual = decode(model, rows, search=search, return_weights=True, limit=LIMIT)
    for one, two in zip(expected, actual, strict=True):
        assert [hypothesis.ids for hypothesis in one] == [hypothesis.ids for hypothesis in two]
        for mine, other in zip(one, two, strict=True):
            assert mine.log_prob == pytest.approx(other.log_prob, abs=1e-9)
            torch.testing.assert_close(mine.weights, other.weights)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_log_prob_equals_that_under_teacher_forcing(search):
    model, rows = Attending(), sources(12)
    actual = decode_all(model, rows, search=search, limit=LIMIT, stack=PaddedTokens.from_lists)
    pairs = [(row, one) for row, hypotheses in zip(rows, actual, strict=True) for one in hypotheses if one.finished]
    assert len(pairs) > 5
    scores = score_all(
        model, [row for row, _ in pairs], [list(one.ids) for _, one in pairs], stack=PaddedTokens.from_lists
    )
    assert scores == pytest.approx([one.log_prob for _, one in pairs], abs=1e-5)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_pad_and_bos_are_never_generated(search):
    model = markov(vocab_size=8)
    model.table[:, :, [PAD, BOS]] = 50.0
    for hypotheses in decode(model, PaddedTokens.from_lists(sources(9)), search=search, limit=LIMIT):
        for hypothesis in hypotheses:
            assert not {PAD, BOS, EOS} & set(hypothesis.ids)
            assert hypothesis.log_prob < -40 * len(hypothesis.ids)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_each_example_has_its_own_limit(search):
    model, rows = markov(vocab_size=8, ending=-100.0), [[3, EOS], [4, 4, 4, 4, EOS], [EOS]]
    actual = decode(model, PaddedTokens.from_lists(rows), search=search, limit=LengthLimit(2.0, 1))
    assert [len(row[0].ids) for row in actual] == [5, 11, 3]
    assert not any(hypothesis.finished for row in actual for hypothesis in row)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_an_immediate_end_and_an_unknown_word(search):
    certain = markov(vocab_size=8, ending=100.0)
    assert [row[0].ids for row in decode(certain, PaddedTokens.from_lists([[3, EOS]]), search=search, limit=LIMIT)] == [
        ()
    ]
    unknown = markov(vocab_size=8)
    unknown.table[:, :, UNK] = 100.0
    assert (
        decode(unknown, PaddedTokens.from_lists([[3, EOS]]), search=search, limit=LengthLimit(0.0, 3))[0][0].ids
        == (UNK,) * 3
    )


def test_a_vocabulary_smaller_than_the_beam():
    model = markov(vocab_size=4)
    actual = decode(
        model, PaddedTokens.from_lists([[3, EOS]] * 2), search=Beam(size=6, num_best=6), limit=LengthLimit(0.0, 3)
    )
    assert {hypothesis.ids for hypothesis in actual[0]} == {(), (3,), (3, 3), (3, 3, 3)}
    assert [hypothesis.finished for hypothesis in actual[0]] == [True, True, True, False]


def test_a_model_that_must_end_stops_the_search():
    model = markov(vocab_size=8)
    model.table[:, :, UNK:] = float("-inf")
    actual = decode(
        model, PaddedTokens.from_lists([[3, EOS]]), search=Beam(size=3, num_best=3), limit=LengthLimit(0.0, 50)
    )
    assert [hypothesis.ids for hypothesis in actual[0]] == [()]
    assert model.num_steps == 1


def test_finished_examples_leave_the_batch():
    model = markov(vocab_size=8, num_sources=2)
    model.table[0, :, EOS], model.table[1, :, EOS] = 100.0, -100.0
    rows = [[4, EOS]] * 30 + [[5, EOS]] * 2
    decode(model, PaddedTokens.from_lists(rows), limit=LengthLimit(0.0, 11))
    assert model.num_rows == 32 + 10 * 2


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_an_empty_batch_and_an_empty_source(search):
    assert decode(markov(vocab_size=8), PaddedTokens.from_lists([]), search=search, limit=LIMIT) == []
    with pytest.raises(ValueError, match=r"source 1 is empty\. A source ends with <eos>"):
        decode(markov(vocab_size=8), PaddedTokens.from_lists([[3, EOS], []]), search=search, limit=LIMIT)


@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_a_broken_model_is_refused(search):
    with pytest.raises(ValueError, match="gives NaN for source 0"):
        decode(
            Markov(torch.full((1, 8, 8), float("nan"))), PaddedTokens.from_lists([[3, EOS]]), search=search, limit=LIMIT
        )


def test_modes_are_restored():
    model = Attending()
    model.cell.eval()
    first = decode(model, PaddedTokens.from_lists(sources(4)), limit=LIMIT)
    assert model.training and model.dropout.training and not model.cell.training
    assert decode(model, PaddedTokens.from_lists(sources(4)), limit=LIMIT) == first
    model.eval()
    decode(model, PaddedTokens.from_lists(sources(4)), limit=LIMIT)
    assert not model.training


def test_ties_are_decided_by_the_first_token():
    model = Markov(torch.zeros(1, 3000, 3000))
    model.table[:, :, 1200:] = 1.0
    assert decode(model, PaddedTokens.from_lists([[3, EOS]]), limit=LengthLimit(0.0, 2))[0][0].ids == (1200, 1200)


def test_ties_in_a_beam_do_not_depend_on_the_batch():
    torch.manual_seed(0)
    model = Markov(torch.randint(0, 3, (4, 1300, 1300)).double())
    rows, search = [[first, EOS] for first in (4, 5, 6, 7)] * 5, Beam(size=3, num_best=3)
    together = decode(model, PaddedTokens.from_lists(rows), search=search, limit=LengthLimit(0.0, 4))
    alone = [decode(model, PaddedTokens.from_lists([row]), search=search, limit=LengthLimit(0.0, 4))[0] for row in rows]
    assert [[one.ids for one in actual] for actual in together] == [[one.ids for one in actual] for actual in alone]


@pytest.mark.parametrize(
    ("make", "sentence"),
    [
        (lambda: Beam(size=0), "size is 0, expected 1 hypothesis or more"),
        (lambda: Beam(size=3, num_best=4), "num_best is 4, but the beam has 3 hypotheses"),
        (lambda: Beam(length_penalty=-1.0), "length_penalty is -1.0"),
        (lambda: LengthLimit(0.0, 0), "leaves no room for a token"),
        (lambda: LengthLimit(-1.0, 5), "leaves no room for a token"),
    ],
)
def test_invalid_settings_raise_errors(make, sentence):
    with pytest.raises(ValueError, match=sentence):
        make()


@pytest.mark.cuda
@pytest.mark.parametrize("search", SEARCHES, ids=str)
def test_cuda_gives_the_same(search):
    model, rows = Attending().double(), sources(17)
    expected = decode_all(model, rows, search=search, return_weights=True, limit=LIMIT, stack=PaddedTokens.from_lists)
    actual = decode_all(
        model.cuda(), rows, search=search, return_weights=True, limit=LIMIT, stack=PaddedTokens.from_lists
    )
    for one, two in zip(expected, actual, strict=True):
        assert [hypothesis.ids for hypothesis in one] == [hypothesis.ids for hypothesis in two]
        torch.testing.assert_close(one[0].weights, two[0].weights)
