"""Weights of chosen queries beside a fused context: equal to those among all weights, and no others are formed."""

import pytest
import torch

from regard import Attention, MultiHeadAttention, attend
from regard.attention import which_backend
from regard.attention.alignments import Sparsemax
from regard.attention.masks import causal, padding, window
from regard.attention.positions import Alibi, Relative, Rotary
from regard.attention.scores import Additive, Dot, Gaussian, General, ScaledDot

MASKS = {
    "none": None,
    "causal": causal(),
    "padding": padding(torch.tensor([9, 0])) & window(3),
    "tensor": torch.rand(2, 7, 9) < 0.6,
    "keys": torch.rand(2, 1, 9) < 0.6,
    "both": causal() & (torch.rand(7, 9) < 0.6),
}
SCORES = {
    "dot": ScaledDot(),
    "general": General(query_size=4, key_size=4),
    "gaussian": Gaussian(),
    "additive": Additive(query_size=4, key_size=4, hidden_size=3),
}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("score", SCORES)
def test_requested_weights_equal_those_among_all(score, mask):
    queries, keys, values = torch.randn(2, 7, 4), torch.randn(2, 9, 4), torch.randn(2, 9, 5)
    options = {"score": SCORES[score], "mask": MASKS[mask]}
    all_of_them = attend(queries, keys, values, **options, return_weights=True)
    for chosen in ([0, 6, 3], torch.tensor([5])):
        actual = attend(queries, keys, values, **options, weights_for_queries=chosen)
        torch.testing.assert_close(actual.weights, all_of_them.weights[:, chosen])
        torch.testing.assert_close(actual.context, all_of_them.context)


def test_only_requested_queries_are_scored(monkeypatch):
    counts = []

    class Listening(ScaledDot):
        def forward(self, queries, keys):
            counts.append(queries.shape[-2])
            return super().forward(queries, keys)

        def lower(self, queries, keys):
            # a class with a forward of its own is lowered only if it also says how
            return super().lower(queries, keys)

    states = torch.randn(2, 100, 8)
    attend(states, states, states, score=Listening(), weights_for_queries=[3, 99])
    assert counts == [2]


def test_requested_weights_of_an_alignment_without_a_kernel():
    states = torch.randn(2, 6, 4)
    actual = attend(states, states, states, align=Sparsemax(), weights_for_queries=[1])
    truth = attend(states, states, states, align=Sparsemax(), return_weights=True)
    torch.testing.assert_close(actual.weights, truth.weights[:, [1]])


@pytest.mark.unchecked
@pytest.mark.parametrize(
    ("indices", "error", "sentence"),
    [
        ([7], ValueError, "contains 7, expected a list of indices of queries, 0 to 6"),
        ([-8], ValueError, "contains -8"),
        ([0.5], TypeError, r"contains 0\.5"),
        ([True], TypeError, "contains True"),
        (torch.tensor([[1]]), ValueError, r"shape \(1, 1\)"),
        (torch.ones(7, dtype=torch.bool), TypeError, r"nonzero\(\)"),
    ],
)
def test_invalid_query_indices_are_refused(indices, error, sentence):
    states = torch.randn(2, 7, 4)
    with pytest.raises(error, match=sentence):
        attend(states, states, states, weights_for_queries=indices)


def test_no_queries_and_negative_indices():
    states = torch.randn(2, 7, 4)
    assert attend(states, states, states, weights_for_queries=[]).weights.shape == (2, 0, 7)
    last = attend(states, states, states, weights_for_queries=[-1]).weights
    torch.testing.assert_close(last, attend(states, states, states, return_weights=True).weights[:, -1:])
    with pytest.raises(ValueError, match="both given"):
        attend(states, states, states, weights_for_queries=[0], return_weights=True)


def test_requested_weights_where_only_the_values_have_a_batch():
    queries, keys, values = torch.randn(7, 4), torch.randn(9, 4), torch.randn(3, 9, 5)
    mask = padding(torch.tensor([1, 5, 9]))
    actual = attend(queries, keys, values, mask=mask, weights_for_queries=[0, 6]).weights
    torch.testing.assert_close(actual, attend(queries, keys, values, mask=mask, return_weights=True).weights[:, [0, 6]])


def test_requested_weights_of_heads_and_memories():
    states = torch.randn(2, 9, 8)
    heads = MultiHeadAttention(8, 2)
    all_of_them = heads(states, mask=causal(), return_weights=True)
    few = heads(states, mask=causal(), weights_for_queries=[7, 2])
    assert few.weights.allclose(all_of_them.weights[..., [7, 2], :])
    assert few.context.allclose(all_of_them.context, atol=1e-6)
    attention = Attention(Dot())
    memory = attention.prepare_memory(states)
    few = attention(states, memory, weights_for_queries=[3])
    assert few.weights.allclose(attention(states, memory, return_weights=True).weights[:, [3]])


@pytest.mark.unchecked
def test_which_backend_refuses_what_attend_refuses():
    states = torch.randn(2, 7, 4)
    for wrong in (
        {"dropout": 3.0},
        {"weights_for_queries": [99]},
        {"weights_for_queries": 3},
        {"weights_for_queries": [1], "return_weights": True},
    ):
        for ask in (attend, which_backend):
            with pytest.raises((ValueError, TypeError), match=r"dropout|weights_for_queries"):
                ask(states, states, states, **wrong)


@pytest.mark.parametrize("indices", [[3], [6, 0], []])
@pytest.mark.parametrize("positions", [Alibi(num_heads=2), Rotary(head_size=4), Relative(head_size=4)])
def test_the_bias_of_a_position_scheme_is_that_of_the_requested_queries(positions, indices):
    heads, states = MultiHeadAttention(8, 2, positions=positions).eval(), torch.randn(2, 7, 8)
    every = heads(states, mask=causal(), return_weights=True).weights
    few = heads(states, mask=causal(), weights_for_queries=indices).weights
    assert few.shape == (2, 2, len(indices), 7)
    assert few.allclose(every[..., indices, :], atol=1e-6)


@pytest.mark.parametrize("num_kv_heads", [4, 2, 1])
def test_heads_that_share_keys_have_the_weights_of_a_few_queries(num_kv_heads):
    torch.manual_seed(0)
    attention, states = MultiHeadAttention(8, 4, num_kv_heads=num_kv_heads).double(), torch.randn(2, 5, 8).double()
    whole = attention(states, mask=causal(), return_weights=True)
    few = attention(states, mask=causal(), weights_for_queries=[3, 1])
    assert few.weights.allclose(whole.weights[..., [3, 1], :], atol=1e-12)
    assert few.context.allclose(whole.context, atol=1e-10)
