"""The additive score in its general form, v . act(W q + U k + b)."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from regard import Attention, attend, which_backend
from regard.attention.masks import causal, padding
from regard.attention.scores import Additive
from regard.contracts import unsupported_reasons
from regard.kernels.additive import operator
from regard.models.translation import Bahdanau, BahdanauConfig
from regard.testing import attention as contract
from regard.testing import check_score

SIZES = {"query_size": 8, "key_size": 6, "hidden_size": 5}
ACTIVATIONS = {"tanh": torch.tanh, "relu": torch.relu, "sigmoid": torch.sigmoid, "module": nn.SiLU(), "gelu": F.gelu}


def make(**options):
    torch.manual_seed(0)
    score = Additive(**SIZES, **options).double()
    if score.bias is not None:
        nn.init.normal_(score.bias)
    return score


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_the_scores_are_those_of_the_formula(name, bias):
    score = make(activation=ACTIVATIONS[name], bias=bias)
    queries, keys = draw(2, 3, 8), draw(2, 4, 6, seed=1)
    scores = score(queries, score.prepare(keys))
    for batch, query, key in ((0, 0, 0), (1, 2, 3), (0, 1, 2)):
        hidden = score.query_proj.weight @ queries[batch, query] + score.key_proj.weight @ keys[batch, key]
        hidden = hidden + score.bias if bias else hidden
        assert scores[batch, query, key].allclose(score.energy @ ACTIVATIONS[name](hidden), atol=1e-12)


def test_opposite_matrices_score_the_difference():
    """W_q = -W_k: the difference is a special case, as v . tanh(W (q - k))."""
    torch.manual_seed(0)
    score = Additive(query_size=6, key_size=6, hidden_size=5).double()
    with torch.no_grad():
        score.query_proj.weight.copy_(-score.key_proj.weight)
    queries, keys = draw(3, 6), draw(4, 6, seed=1)
    difference = queries[:, None] - keys
    expected = torch.tanh(-(difference @ score.key_proj.weight.T)) @ score.energy
    assert score(queries, score.prepare(keys)).allclose(expected, atol=1e-12)
    # of equal vectors the difference is 0, whatever they are; other matrices do not have this property
    assert score(keys, score.prepare(keys)).diagonal().allclose(torch.zeros(4, dtype=torch.float64), atol=1e-12)
    other = Additive(query_size=6, key_size=6, hidden_size=5).double()
    assert (other(keys, other.prepare(keys)).diagonal().abs() > 1e-3).any()


@pytest.mark.parametrize(
    "options", [{"bias": True}, {"activation": torch.relu}, {"activation": nn.SiLU(), "bias": True}]
)
def test_the_contract_holds_in_the_general_form(options, monkeypatch):
    # over few queries and keys the fused kernel is not worth it, and would not be checked
    monkeypatch.setitem(operator.WORTH_IT, "cpu", 0)
    monkeypatch.setattr(operator, "FEWEST", 1)
    score = Additive(**SIZES, **options)
    masks = {"none": lambda lengths: None, "lengths": lambda lengths: causal() & padding(lengths)}
    # run-time checks of shapes cannot be compiled
    checks = tuple(check for check in contract.CASE_CHECKS if check.__name__ != "check_compiled")
    monkeypatch.setattr(contract, "CASE_CHECKS", checks)
    check_score(score, query_size=8, key_size=6, alignments=["softmax"], masks=masks)


def test_tanh_runs_fused_with_a_bias_and_another_activation_gives_its_reason(monkeypatch):
    monkeypatch.setitem(operator.WORTH_IT, "cpu", 0)
    monkeypatch.setattr(operator, "FEWEST", 1)
    inputs = draw(2, 3, 8), draw(2, 4, 6, seed=1), draw(2, 4, 2, seed=2)
    for bias in (False, True):
        assert which_backend(*inputs, score=make(bias=bias)).backend != "plain"
    for activation, name in ((torch.relu, "relu"), (nn.SiLU(), r"SiLU()")):
        choice = which_backend(*inputs, score=make(activation=activation))
        assert choice.backend == "plain" and f"Additive applies {name}, and fused kernels" in str(choice)


def test_the_default_has_the_parameters_the_numbers_and_the_print_of_the_plain_score():
    plain = make()
    assert list(plain.state_dict()) == ["energy", "query_proj.weight", "key_proj.weight"]
    assert repr(plain).startswith("Additive(\n  query_size=8, key_size=6, hidden_size=5\n")
    biased = make(bias=True)
    assert list(biased.state_dict()) == ["energy", "bias", "query_proj.weight", "key_proj.weight"]
    assert all(torch.equal(plain.state_dict()[name], biased.state_dict()[name]) for name in plain.state_dict())
    assert "hidden_size=5, activation=relu, bias=True" in repr(make(activation=torch.relu, bias=True))
    # the bias starts at 0, where it changes no score
    fresh = Additive(**SIZES, bias=True)
    assert (fresh.bias == 0).all()


def test_gradients_reach_the_bias():
    attention = Attention(make(bias=True))
    attended = attention(draw(2, 3, 8), attention.prepare_memory(draw(2, 4, 6, seed=1)))
    attended.context.square().sum().backward()
    assert attention.score.bias.grad.norm() > 0


@pytest.mark.parametrize("options", [{"bias": True}, {"activation": torch.relu}])
def test_a_model_with_another_additive_score_runs_its_own_code(options):
    """Fused steps are written for v . tanh(W q + U k), so a model with another score must not run them."""
    config = BahdanauConfig(source_vocab_size=9, target_vocab_size=9, embedding_size=4, hidden_size=4, alignment_size=3)
    model = Bahdanau(config).eval()
    with torch.no_grad():
        assert not unsupported_reasons(model)
        old = model.attention.score
        model.attention.score = Additive(query_size=old.query_size, key_size=old.key_size, hidden_size=3, **options)
        assert unsupported_reasons(model)


def test_attend_takes_it_as_it_is():
    score = make(activation=torch.relu)
    queries, keys, values = draw(3, 8), draw(4, 6, seed=1), draw(4, 2, seed=2)
    weights = torch.softmax(score(queries, score.prepare(keys)), dim=-1)
    assert attend(queries, keys, values, score=score).context.allclose(weights @ values, atol=1e-12)
