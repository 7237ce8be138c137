"""Worked examples with numbers that can be checked by hand."""

import math

import pytest
import torch

from regard import Attention, MultiHeadAttention, attend
from regard.attention.alignments import Diagonal, LocalMonotonic, LocalPredictive, Ratio, Sigmoid
from regard.attention.masks import causal
from regard.attention.scores import Gaussian, Location
from regard.contracts import PositionInfo


def test_your_journey_starts_under_the_causal_mask():
    words = torch.randn(3, 4)
    weights = attend(words, words, words, mask=causal(), return_weights=True).weights
    assert weights[0].tolist() == [1.0, 0.0, 0.0], "Your attends to itself only"
    assert weights[1, 2] == 0 and (weights[1, :2] > 0).all(), "journey does not attend to starts"
    assert (weights[2] > 0).all(), "starts attends to all three"


def test_projection_of_strength_agility_and_intelligence():
    """(100, 50, 10) projected to attack and dodge is (90, 46): a value projection by hand."""
    heads = MultiHeadAttention(2, 1, source_size=3)
    with torch.no_grad():
        heads.value_proj.weight.copy_(torch.tensor([[0.8, 0.2, 0.0], [0.0, 0.9, 0.1]]))
    memory = heads.prepare_memory(torch.tensor([[100.0, 50.0, 10.0]]))
    assert memory.values.flatten().tolist() == [90.0, 46.0]


def test_gaussian_kernel_regression_of_three_points():
    x, y = torch.tensor([[0.0], [1.0], [2.0]]), torch.tensor([[1.0], [3.0], [2.0]])
    query = torch.tensor([[0.5]])
    kernel = torch.exp(-((0.5 - x) ** 2) / 2)
    expected = (kernel * y).sum() / kernel.sum()
    assert attend(query, x, y, score=Gaussian()).context.allclose(expected)
    assert attend(query, x, y, score=Gaussian(), return_weights=True).context.allclose(expected)


def test_apple_attends_with_the_weights_of_the_seed_document():
    """我 吃了 一个 苹果: the last word has the scores (0.3, 0.3, 0.1, 0.3), which Ratio normalises."""
    seed = torch.tensor([[3.0, 3.0, 1.0, 3.0]])
    assert Ratio()(seed).weights.allclose(torch.tensor([[0.3, 0.3, 0.1, 0.3]]))


def test_sigmoid_weights_keys_independently():
    scores = torch.tensor([[[0.0, 2.0, -1.0]]])
    weights = Sigmoid(bias=-1.0)(scores).weights[0, 0]
    assert weights.tolist() == pytest.approx([1 / (1 + math.exp(1.0 - s)) for s in (0.0, 2.0, -1.0)])


def test_local_monotonic_window_by_hand():
    scores = torch.zeros(1, 3, 6)
    weights = LocalMonotonic(window=1)(scores, position_info=PositionInfo(positions=torch.tensor([0, 2, 9]))).weights[0]
    third = 1 / 3
    assert weights.allclose(
        torch.tensor([[0.5, 0.5, 0, 0, 0, 0], [0, third, third, third, 0, 0], [0.0, 0, 0, 0, 0, 0]])
    )


def test_local_predictive_by_hand():
    align = LocalPredictive(query_size=2, hidden_size=3, window=2)
    queries = torch.randn(1, 1, 2)
    centre = 5 * torch.sigmoid(torch.tanh(queries[0, 0] @ align.query_proj.weight.T) @ align.place)
    scores = torch.randn(1, 1, 7)
    position_info = PositionInfo(queries=queries, lengths=torch.tensor([5]))
    mask = torch.arange(7) < 5
    weights = align(scores, mask, position_info).weights[0, 0]
    near = [j for j in range(5) if abs(j - centre) <= 2]
    inside = torch.softmax(scores[0, 0, near], -1)
    expected = inside * torch.exp(-((torch.tensor(near) - centre) ** 2) / (2 * 1.0**2))
    assert weights[near].allclose(expected, atol=1e-6)
    assert weights.sum() < 1
    assert align(scores, mask, PositionInfo(queries=queries)).weights.allclose(
        align(scores, mask, position_info).weights
    )


def test_the_diagonal_ends_at_the_end_of_the_source():
    position_info = PositionInfo(positions=torch.arange(4), lengths=torch.tensor([8]), target_lengths=torch.tensor([4]))
    weights = Diagonal(spread=0.5)(torch.randn(1, 4, 8), position_info=position_info).weights
    assert weights.argmax(-1).tolist() == [[1, 3, 5, 7]]
    assert Diagonal(ratio=2.0, spread=0.5)(torch.randn(1, 4, 8), position_info=position_info).weights.allclose(weights)


def test_location_gives_no_weight_past_its_end_and_warns():
    attention = Attention(Location(query_size=4, max_length=3))
    states = torch.randn(2, 5, 4)
    with pytest.warns(UserWarning, match="those past 3 are never attended to"):
        memory = attention.prepare_memory(states)
    for return_weights in (True, False):
        attended = attention(torch.randn(2, 1, 4), memory, return_weights=return_weights)
        if return_weights:
            assert (attended.weights[..., 3:] == 0).all()
            assert attended.weights.sum(-1).allclose(torch.ones(2, 1))
