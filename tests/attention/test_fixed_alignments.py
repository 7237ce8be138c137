"""Uniform and random weights: controls that do not depend on the scores."""

import pytest
import torch

from regard import Attention, PositionInfo, attend
from regard.attention.alignments import Random, Uniform
from regard.attention.masks import causal

KINDS = [Uniform(), Random(), Random(seed=7)]


def weights_of(align, scores, mask=None, positions=None, **options):
    positions = torch.arange(scores.shape[-2]) if positions is None else positions
    return align(scores, mask, PositionInfo(positions=positions, **options)).weights


def test_uniform_is_the_mean_of_the_allowed_keys():
    torch.manual_seed(0)
    queries, keys, values = torch.randn(2, 5, 4), torch.randn(2, 5, 4), torch.randn(2, 5, 3)
    context = attend(queries, keys, values, align=Uniform(), mask=causal()).context
    expected = torch.stack([values[:, : query + 1].mean(1) for query in range(5)], dim=1)
    assert context.allclose(expected, atol=1e-6)


def test_a_score_of_minus_infinity_forbids_a_key():
    scores = torch.tensor([[0.0, float("-inf"), 5.0]])
    assert Uniform()(scores).weights.tolist() == [[0.5, 0.0, 0.5]]
    weights = weights_of(Random(), scores)
    assert weights[0, 1] == 0 and weights.sum().item() == pytest.approx(1)


@pytest.mark.parametrize("align", KINDS, ids=str)
def test_the_scores_have_no_effect_and_no_gradient(align):
    scores = torch.randn(2, 4, 6, requires_grad=True)
    weights = weights_of(align, scores)
    assert torch.equal(weights, weights_of(align, torch.randn(2, 4, 6)))
    assert not weights.requires_grad and not list(align.parameters()) and not align.state_dict()


def test_random_weights_are_a_function_of_seed_and_positions():
    first, again, other = (weights_of(Random(seed=seed), torch.zeros(4, 6)) for seed in (3, 3, 4))
    assert torch.equal(first, again) and not first.allclose(other, atol=1e-2)
    # recorded: another platform or version must not draw others
    recorded = torch.tensor([[0.3362, 0.0750, 0.0558, 0.5329], [0.1895, 0.1000, 0.0835, 0.6270]])
    assert weights_of(Random(seed=3), torch.zeros(2, 4)).allclose(recorded, atol=1e-4)
    assert (first > 0).all() and first.sum(-1).allclose(torch.ones(4))


def test_random_weights_depend_on_no_batch_no_padding_and_no_global_generator():
    torch.manual_seed(1)
    lengths = torch.tensor([6, 3, 1])
    mask = torch.arange(6) < lengths[:, None, None]
    batch = weights_of(Random(), torch.randn(3, 4, 6), mask)
    for element, length in enumerate(lengths):
        torch.manual_seed(element)
        alone = weights_of(Random(), torch.randn(4, length))
        assert batch[element, :, :length].allclose(alone, atol=1e-7) and (batch[element, :, length:] == 0).all()


def test_random_weights_in_steps_equal_one_call():
    torch.manual_seed(2)
    attention = Attention(align=Random(seed=5))
    queries, memory = torch.randn(2, 5, 4), attention.prepare_memory(torch.randn(2, 7, 4))
    whole = attention(queries, memory, position_info=PositionInfo(positions=torch.arange(5)), return_weights=True)
    for step in range(5):
        info = PositionInfo(positions=torch.tensor([step]))
        attended = attention(queries[:, step : step + 1], memory, position_info=info, return_weights=True)
        assert torch.equal(attended.weights[:, 0], whole.weights[:, step])


def test_random_weights_with_a_window_of_keys_are_those_of_their_positions():
    whole = weights_of(Random(), torch.zeros(1, 9), torch.arange(9) >= 4, positions=torch.tensor([8]))
    window = weights_of(Random(), torch.zeros(1, 5), positions=torch.tensor([8]), key_positions=torch.arange(4, 9))
    assert window.allclose(whole[:, 4:], atol=1e-7)


def test_random_weights_are_uniform_over_all_distributions():
    """Shares of n exponential variables: mean 1 / n, variance (n - 1) / (n^2 (n + 1)), and rows are uncorrelated."""
    weights = weights_of(Random(), torch.zeros(4000, 5, dtype=torch.float64))
    assert weights.mean(0).allclose(torch.full((5,), 0.2, dtype=torch.float64), atol=0.01)
    assert weights.var(0).allclose(torch.full((5,), 4 / (25 * 6), dtype=torch.float64), atol=0.003)
    correlation = torch.corrcoef(torch.stack([weights[:-1, 0], weights[1:, 0], weights[:-1, 1]]))
    assert correlation[0, 1].abs() < 0.05
    # within a query the shares compete: -1 / (n - 1)
    assert correlation[0, 2].item() == pytest.approx(-0.25, abs=0.05)
    assert (weights > 0).all()


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16], ids=str)
@pytest.mark.parametrize("align", KINDS, ids=str)
def test_precisions_have_the_same_weights(align, dtype):
    tolerance = 0.01 if dtype == torch.bfloat16 else 1e-6
    scores = torch.zeros(2, 3, 400, 6, dtype=dtype)
    weights = weights_of(align, scores)
    exact = weights_of(align, scores.double())
    assert weights.dtype == dtype and weights.double().allclose(exact, atol=tolerance)


def test_a_seed_is_a_count():
    with pytest.raises(ValueError, match="seed is -1"):
        Random(seed=-1)


def test_random_needs_positions():
    with pytest.raises(ValueError, match="Random depends on the step of each query"):
        attend(torch.randn(3, 4), torch.randn(5, 4), torch.randn(5, 2), align=Random())
