"""Alignments of the winning hypothesis, as numbers, as links and as text; long lists and forced targets."""

import pytest
import torch

from regard.contracts import BOS, EOS, Hypothesis, PaddedTokens
from regard.decoding import Beam, Greedy, Sampling, decode, decode_all, forced_alignment, score, score_all
from regard.decoding.decode import batches
from regard.metrics import best_links, from_pharaoh, links, merge_words, to_pharaoh
from tests.decoding.fakes import LIMIT, Attending, markov, sources


@pytest.mark.parametrize("search", [Greedy(), Beam(size=4, num_best=4), Sampling()], ids=str)
def test_alignment_is_that_of_the_winning_hypothesis(search):
    model, rows = Attending().double(), sources(8)
    actual = decode_all(model, rows, search=search, return_weights=True, limit=LIMIT, stack=PaddedTokens.from_lists)
    for row, hypotheses in zip(rows, actual, strict=True):
        for hypothesis in hypotheses:
            tokens_in = [BOS, *hypothesis.ids] if hypothesis.finished else [BOS, *hypothesis.ids[:-1]]
            (expected,) = forced_alignment(model, PaddedTokens.from_lists([row]), PaddedTokens.from_lists([tokens_in]))
            assert hypothesis.weights.shape == (len(hypothesis.ids) + hypothesis.finished, len(row))
            torch.testing.assert_close(hypothesis.weights, expected)
            assert not hypothesis.weights.is_inference()


def test_weights_are_returned_on_request_and_only_if_the_model_has_them():
    rows = sources(3)
    assert decode_all(Attending(), rows, limit=LIMIT, stack=PaddedTokens.from_lists)[0][0].weights is None
    for search in (Greedy(), Beam(size=3)):
        assert (
            decode_all(
                markov(vocab_size=8),
                rows,
                search=search,
                return_weights=True,
                limit=LIMIT,
                stack=PaddedTokens.from_lists,
            )[0][0].weights
            is None
        )
    assert (
        forced_alignment(markov(vocab_size=8), PaddedTokens.from_lists(rows), PaddedTokens.from_lists([[BOS]] * 3))
        is None
    )


def test_forced_alignments_have_the_size_of_each_example():
    model, rows = Attending(), sources(5)
    targets = [[BOS, *row[:-1]] for row in sources(5, seed=1)]
    actual = forced_alignment(model, PaddedTokens.from_lists(rows), PaddedTokens.from_lists(targets))
    assert [tuple(one.shape) for one in actual] == [(len(y), len(x)) for x, y in zip(rows, targets, strict=True)]
    assert model.training


def hypothesis(alignment, ids):
    return Hypothesis(ids=ids, log_prob=0.0, score=0.0, finished=True, weights=torch.tensor(alignment))


def test_links_by_hand():
    # columns a b <eos>; rows 10 11 12 <eos>
    attended = hypothesis([[0.1, 0.2, 0.7], [0.4, 0.4, 0.2], [0.0, 0.0, 1.0], [0.9, 0.1, 0.0]], (10, 11, 12))
    assert links(attended) == [(0, 1), (1, 0)]
    assert to_pharaoh(links(attended)) == "0-1 1-0"
    assert links(hypothesis([[1.0]], ())) == []
    assert best_links(torch.zeros(0, 4)) == []
    with pytest.raises(ValueError, match=r"has no alignment\. Decode with return_weights=True"):
        links(Hypothesis(ids=(4,), log_prob=0.0, score=0.0, finished=False))


def test_words_by_hand():
    tokens = torch.tensor([[0.1, 0.2, 0.3, 0.4], [0.5, 0.1, 0.2, 0.2], [0.0, 0.0, 0.0, 1.0]])
    merged = merge_words(tokens, source_words=[0, 0, 1, 3], target_words=[0, 0, 1])
    expected = torch.tensor([[0.45, 0.25, 0.0, 0.3], [0.0, 0.0, 0.0, 1.0]])
    torch.testing.assert_close(merged, expected)
    assert best_links(merged) == [(0, 0), (3, 1)]
    attended = hypothesis([[0.3, 0.3, 0.4, 0.0], [0.0, 0.1, 0.9, 0.0], [0.0, 0.0, 0.0, 1.0]], (10, 11))
    assert links(attended) == [(2, 0), (2, 1)]
    assert links(attended, source_words=[0, 0, 1]) == [(0, 0), (1, 1)]
    assert links(attended, source_words=[0, 0, 1], target_words=[0, 0]) == [(1, 0)]
    with pytest.raises(ValueError, match="source_words has 2 entries, but the alignment has 4"):
        merge_words(tokens, source_words=[0, 1], target_words=[0, 0, 1])
    with pytest.raises(ValueError, match="target_words has the number -1"):
        merge_words(tokens, source_words=[0, 0, 1, 3], target_words=[0, 0, -1])


def test_pharaoh_text():
    assert from_pharaoh("0-0 1-2\n") == [(0, 0), (1, 2)]
    assert from_pharaoh("") == [] and to_pharaoh([]) == ""
    assert from_pharaoh(to_pharaoh([(3, 1), (0, 12)])) == [(3, 1), (0, 12)]
    for wrong in ("1-x", "1--2", "2", "1-2-3", "-1-2"):
        with pytest.raises(ValueError, match=rf"line 7: '{wrong}' is not a link"):
            from_pharaoh(f"0-0 {wrong}", number=7)


def test_long_lists_are_decoded_in_order():
    model, rows = Attending().double(), sources(30)
    expected = [row[0].ids for row in decode(model, PaddedTokens.from_lists(rows), limit=LIMIT)]
    for budget in (1, 20, 10_000):
        assert [
            row[0].ids
            for row in decode_all(
                model, rows, tokens_per_batch=budget, device="cpu", limit=LIMIT, stack=PaddedTokens.from_lists
            )
        ] == expected
    assert (
        decode_all(model, [], limit=LIMIT, stack=PaddedTokens.from_lists) == []
        and score_all(model, [], [], stack=PaddedTokens.from_lists) == []
    )
    with pytest.raises(ValueError, match="tokens_per_batch is 0"):
        decode_all(model, rows, tokens_per_batch=0, limit=LIMIT, stack=PaddedTokens.from_lists)
    with pytest.raises(ValueError, match="30 sources and 1 targets"):
        score_all(model, rows, [[3]], stack=PaddedTokens.from_lists)


def test_batches_respect_their_token_budget():
    lengths = [3, 9, 1, 4, 4, 30, 2, 2]
    cut = batches(lengths, 12)
    assert sorted(number for batch in cut for number in batch) == list(range(8))
    assert all(len(batch) == 1 or max(lengths[number] for number in batch) * len(batch) <= 12 for batch in cut)
    assert cut[0] == [5] and len(cut) == 4


def test_scores_are_sums_of_log_probabilities():
    model, rows = Attending(), sources(6)
    targets = [row[:-1] for row in sources(6, seed=2)]
    actual = score_all(model, rows, targets, tokens_per_batch=15, stack=PaddedTokens.from_lists)
    assert model.training
    model.eval()
    for row, target, got in zip(rows, targets, actual, strict=True):
        logits = model.forward(PaddedTokens.from_lists([row]), PaddedTokens.from_lists([[BOS, *target]]))[0]
        tokens = [*target, EOS]
        assert got == pytest.approx(logits.log_softmax(-1)[range(len(tokens)), tokens].sum().item(), abs=1e-5)
    labels = PaddedTokens.from_lists([[*target, EOS] for target in targets]).ids
    total = score(
        model, PaddedTokens.from_lists(rows), PaddedTokens.from_lists([[BOS, *target] for target in targets]), labels
    )
    assert total.tolist() == pytest.approx(actual, abs=1e-5)
