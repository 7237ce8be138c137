"""Every system of the table with every search."""

import pytest
import torch

from regard.contracts import BOS, LengthLimit, PaddedTokens
from regard.decoding import Beam, Greedy, Sampling, decode, forced_alignment, score_all
from regard.models.translation import TRANSLATION_MODELS
from tests.contracts.listed import with_variants
from tests.contracts.test_models import SOURCES, make

LIMIT = LengthLimit(1.0, 3)

every_model = pytest.mark.parametrize(("name", "change"), with_variants(TRANSLATION_MODELS))


@every_model
@pytest.mark.parametrize(
    "search", [Greedy(), Beam(size=3, num_best=2), Sampling()], ids=lambda search: type(search).__name__
)
def test_outputs_alone_equal_those_in_a_batch_and_their_scores(name, change, search):
    model = make(name, change)
    actual = decode(model, PaddedTokens.from_lists(SOURCES), search=search, limit=LIMIT, return_weights=True)
    for number, (row, hypotheses) in enumerate(zip(SOURCES, actual, strict=True)):
        source = PaddedTokens.from_lists([row])
        numbers = torch.tensor([number])
        (alone,) = decode(model, source, search=search, limit=LIMIT, numbers=numbers)
        assert [one.ids for one in alone] == [one.ids for one in hypotheses]
        assert [one.log_prob for one in alone] == pytest.approx([one.log_prob for one in hypotheses], abs=1e-9)
        for one in hypotheses:
            assert len(one.ids) + one.finished <= len(row) + 3
            if one.finished:
                assert score_all(model, [row], [list(one.ids)], stack=PaddedTokens.from_lists) == pytest.approx(
                    [one.log_prob], abs=1e-9
                )
            assert (one.weights is not None) == TRANSLATION_MODELS[name].attends
            if one.weights is not None:
                tokens_in = [BOS, *one.ids][: len(one.ids) + one.finished]
                (expected,) = forced_alignment(model, source, PaddedTokens.from_lists([tokens_in]))
                torch.testing.assert_close(one.weights, expected)


@every_model
def test_a_beam_reorders_the_state(name, change):
    model = make(name, change)
    (actual,) = decode(
        model, PaddedTokens.from_lists(SOURCES[:1]), search=Beam(size=13, num_best=13), limit=LengthLimit(0.0, 4)
    )
    finished = [one for one in actual if one.finished]
    scores = score_all(
        model, SOURCES[:1] * len(finished), [list(one.ids) for one in finished], stack=PaddedTokens.from_lists
    )
    assert finished and scores == pytest.approx([one.log_prob for one in finished], abs=1e-9)
