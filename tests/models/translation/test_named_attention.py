"""Models that attend take any score and alignment by name; the steps agree with the forward pass."""

import pytest
import torch

from regard import trace
from regard.contracts import PaddedTokens
from regard.models.translation import TRANSLATION_MODELS
from tests.models.translation.stepping import take_steps

SIZES = {
    "bahdanau": {"embedding_size": 4, "hidden_size": 6, "alignment_size": 5, "maxout_size": 3},
    "luong": {"embedding_size": 4, "hidden_size": 6, "num_layers": 1},
    "lstmn": {"embedding_size": 4, "hidden_size": 6},
    "conv_seq2seq": {"embedding_size": 4, "hidden_size": 6, "num_layers": 2},
    "transformer": {"hidden_size": 8, "num_layers": 2, "num_heads": 2, "feed_forward_size": 8},
}
SOURCE, TARGET = PaddedTokens.from_lists([[4, 7, 5, 9, 2], [9, 3, 2]]), PaddedTokens.from_lists([[1, 9, 12], [1, 3, 3]])
ALIGNMENTS = ("sparsemax", "entmax", "hard", "diagonal", "local_monotonic", "sigmoid", "uniform", "random")


def make_model(name, **change):
    torch.manual_seed(0)
    entry = TRANSLATION_MODELS[name]
    sizes = {"source_vocab_size": 11, "target_vocab_size": 13, **SIZES[name], **change}
    model = entry.build(entry.config(**sizes)).double().eval()
    for parameter in model.parameters():
        torch.nn.init.normal_(parameter, std=0.7)
    return model


@pytest.mark.parametrize("name", SIZES)
@pytest.mark.parametrize("alignment", ALIGNMENTS)
def test_steps_equal_the_forward_pass_with_every_alignment(name, alignment):
    model = make_model(name, alignment=alignment)
    logits, (_, stepped, weights) = model(SOURCE, TARGET), take_steps(model, SOURCE, TARGET)
    torch.testing.assert_close(stepped, logits)
    assert (weights[1, :, 3:] == 0).all()
    if alignment == "hard" and name in ("bahdanau", "luong", "lstmn"):
        assert set(weights.unique().tolist()) == {0.0, 1.0}


@pytest.mark.parametrize("name", SIZES)
def test_the_fixed_diagonal_does_not_depend_on_the_words(name):
    model, target = make_model(name, alignment="diagonal"), PaddedTokens.from_lists([[1, 9, 12]])
    sources = [PaddedTokens.from_lists([ids]) for ids in ([4, 7, 5, 9, 2], [3, 3, 6, 8, 2])]
    one, other = (take_steps(model, source, target)[2] for source in sources)
    assert one.equal(other)
    assert one[0].argmax(dim=-1).tolist() == [0, 1, 2]


@pytest.mark.parametrize("name", ["bahdanau", "luong", "conv_seq2seq", "transformer"])
@pytest.mark.parametrize("score", ["dot", "scaled_dot", "general", "additive", "cosine"])
def test_a_score_by_name_is_used(name, score):
    if name == "bahdanau" and score in ("dot", "scaled_dot", "cosine"):
        pytest.skip("the states of a bidirectional encoder are twice as wide as the query")
    model = make_model(name, score=score)
    logits, (_, stepped, _) = model(SOURCE, TARGET), take_steps(model, SOURCE, TARGET)
    torch.testing.assert_close(stepped, logits)
    names = {type(module).__name__.lower() for module in model.modules()}
    assert score.replace("_", "") in names


def test_named_parts_begin_where_they_can_learn():
    """The initialisation of the paper is for its own parameters."""
    config = {"source_vocab_size": 11, "target_vocab_size": 13}
    entry = TRANSLATION_MODELS["luong"]
    luong = entry.build(entry.config(**config, **SIZES["luong"], score="gaussian"))
    assert luong.attention.score.width.item() == 1.0
    assert luong.combine.weight.abs().max() <= 0.1
    entry = TRANSLATION_MODELS["bahdanau"]
    bahdanau = entry.build(entry.config(**config, **SIZES["bahdanau"], alignment="local_predictive"))
    # with v = 0 the matrix of the predicted position would have no gradient
    assert (bahdanau.attention.align.place != 0).all()
    assert 0 < bahdanau.attention.score.energy.abs().max() < 0.1


@pytest.mark.parametrize("setting", ["score", "alignment"])
@pytest.mark.parametrize("name", SIZES)
def test_an_unknown_name_is_refused_with_the_nearest(name, setting):
    if (name, setting) == ("lstmn", "score"):
        pytest.skip("the score is part of the LSTMN")
    with pytest.raises(ValueError, match=f"{setting} is 'sparsmax'"):
        make_model(name, **{setting: "sparsmax"})


def test_a_trace_shows_the_sparse_weights_of_a_parallel_model():
    model = make_model("transformer", alignment="sparsemax")
    # sparse where the scores differ by more than 1
    torch.nn.init.normal_(model.decoder[1].cross_attention.query_proj.weight, std=50.0)
    with trace(model) as maps:
        model(SOURCE, TARGET)
    (cross,), (own,) = maps["decoder.1.cross_attention"], maps["decoder.1.self_attention"]
    # the alignment is that of the attention to the source alone
    assert (cross.weights[0] == 0).any()
    assert (own.weights[0, :, -1] > 0).all()


@pytest.mark.parametrize("name", ["bahdanau", "luong"])
def test_two_cursors_continue_where_they_stopped(name):
    model = make_model(name, alignment="monotonic")
    _, (_, _, weights) = model(SOURCE, TARGET), take_steps(model, SOURCE, TARGET)
    # later queries are never nearer to the beginning: the mass on the first keys can only fall
    mass = weights.cumsum(dim=-1)
    assert (mass[:, 1:] <= mass[:, :-1] + 1e-12).all()
    assert (weights[:, 1:].sum(dim=-1) < weights[:, :-1].sum(dim=-1) + 1e-12).all()


@pytest.mark.parametrize("name", ["lstmn", "conv_seq2seq", "transformer"])
def test_models_whose_state_has_no_weights_refuse_two_cursors(name):
    with pytest.raises(ValueError, match="depends on the weights of the step before"):
        make_model(name, alignment="monotonic")
