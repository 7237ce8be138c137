"""The monotonic alignment against the sum over all paths of its two cursors."""

from itertools import product

import pytest
import torch

from regard import Attention, MultiHeadAttention, attend
from regard.attention.alignments import Monotonic
from regard.attention.masks import padding
from regard.contracts import PositionInfo


def enumerate_paths(stop, start):
    """weights_tj as the sum of the probabilities of all monotonic paths, one at a time; K is "past the last key"."""
    num_queries, num_keys = stop.shape
    weights = torch.zeros_like(stop)
    for path in product(range(num_keys + 1), repeat=num_queries):
        for first, start_probability in enumerate(start.tolist()):
            probability, cursor = torch.tensor(start_probability, dtype=stop.dtype), first
            for query, key in enumerate(path):
                # never back; past the end there is nowhere to go
                moves = (1 - stop[query, cursor:key]).prod() if key >= cursor else 0.0
                probability = probability * moves * (stop[query, key] if key < num_keys else 1.0)
                cursor = key
            for query, key in enumerate(path):
                if key < num_keys:
                    weights[query, key] += probability
    return weights


def draw(*shape, seed=0):
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def first_key(num_keys):
    return (torch.arange(num_keys) == 0).double()


@pytest.mark.parametrize(("num_queries", "num_keys"), [(1, 1), (1, 4), (3, 1), (2, 3), (4, 4), (3, 5), (5, 2)])
def test_the_weights_are_the_sum_over_all_monotonic_paths(num_queries, num_keys):
    scores = draw(num_queries, num_keys)
    expected = enumerate_paths(torch.sigmoid(scores), first_key(num_keys))
    assert Monotonic()(scores).weights.allclose(expected, atol=1e-12)
    biased = enumerate_paths(torch.sigmoid(scores - 0.7), first_key(num_keys))
    assert Monotonic(bias=-0.7)(scores).weights.allclose(biased, atol=1e-12)


def test_the_paths_pass_over_forbidden_keys_and_start_from_the_previous_weights():
    scores, mask = draw(3, 4), draw(3, 4, seed=1) > -0.6
    assert not mask.all()
    start = torch.tensor([0.1, 0.0, 0.5, 0.2], dtype=torch.float64)
    expected = enumerate_paths(torch.sigmoid(scores) * mask, start)
    weights = Monotonic()(scores, mask, PositionInfo(previous_weights=start)).weights
    assert weights.allclose(expected, atol=1e-12) and (weights[~mask] == 0).all()


def test_two_queries_and_two_keys_by_hand():
    p = torch.tensor([[0.25, 0.5], [0.75, 0.2]], dtype=torch.float64)
    weights = Monotonic()(p.logit()).weights
    # the first query: stops at once, or moves on and stops
    assert weights[0].tolist() == pytest.approx([0.25, 0.75 * 0.5])
    # the second stays at the first key, or moves on from it, or stays at the second
    assert weights[1].tolist() == pytest.approx([0.25 * 0.75, (0.25 * 0.25 + 0.375) * 0.2])


def test_the_weights_sum_to_at_most_one_and_the_rest_is_past_the_end():
    totals = Monotonic()(draw(2, 9, 6)).weights.sum(-1)
    assert (totals <= 1 + 1e-12).all() and (totals > 0).all()
    # once past the end, the cursor does not come back
    assert (totals.diff(dim=-1) <= 1e-12).all() and totals[0, -1] < totals[0, 0]
    certain = Monotonic()(torch.full((3, 4), float("inf"), dtype=torch.float64)).weights
    assert torch.equal(certain, first_key(4).expand(3, 4))


@pytest.mark.parametrize("align", [Monotonic(), Monotonic(bias=-1.0)], ids=str)
def test_repeated_steps_equal_one_call(align):
    attention = Attention(align=align)
    states, queries, lengths = draw(3, 7, 4), draw(3, 5, 4, seed=1), torch.tensor([7, 4, 1])
    memory = attention.prepare_memory(states, mask=torch.arange(7) < lengths[:, None])
    whole = attention(queries, memory, return_weights=True)
    previous = None
    for step in range(5):
        info = PositionInfo(positions=torch.tensor([step]), previous_weights=previous)
        attended = attention(queries[:, step : step + 1], memory, position_info=info, return_weights=True)
        previous = attended.weights[:, -1]
        assert torch.equal(attended.weights[:, 0], whole.weights[:, step])
        assert attended.context[:, 0].allclose(whole.context[:, step], atol=1e-12)


def test_steps_with_heads_and_with_a_growing_memory_equal_one_call():
    torch.manual_seed(0)
    heads = MultiHeadAttention(8, 2, align=Monotonic()).double()
    states, queries = draw(2, 6, 8), draw(2, 4, 8, seed=1)
    whole = heads(queries, heads.prepare_memory(states), return_weights=True)
    first = heads(queries[:, :2], heads.prepare_memory(states), return_weights=True)
    info = PositionInfo(previous_weights=first.weights[..., -1, :])
    second = heads(queries[:, 2:], heads.prepare_memory(states), position_info=info, return_weights=True)
    assert torch.cat([first.weights, second.weights], dim=-2).allclose(whole.weights, atol=1e-14)
    # query t sees 3 + t keys: at each step the memory has one more, and the previous weights one fewer
    scores = draw(4, 6)
    causal = torch.arange(6) < torch.arange(3, 7)[:, None]
    expected, previous = Monotonic()(scores, causal).weights, None
    for step in range(4):
        row = Monotonic()(scores[step : step + 1, : 3 + step], None, PositionInfo(previous_weights=previous)).weights
        previous = row[0]
        assert previous.allclose(expected[step, : 3 + step], atol=1e-14)


def test_lengths_and_padding_change_nothing():
    queries, keys, values = draw(3, 4, 5), draw(3, 6, 5, seed=1), draw(3, 6, 2, seed=2)
    lengths = torch.tensor([6, 2, 0])
    batch = attend(queries, keys, values, align=Monotonic(), mask=padding(lengths), return_weights=True)
    for element, length in enumerate(lengths):
        alone = attend(queries[element], keys[element, :length], values[element, :length], align=Monotonic())
        assert batch.context[element].allclose(alone.context, atol=1e-12)
    # queries that pad the end of a target come after all others
    longer = attend(torch.cat([queries, draw(3, 2, 5, seed=3)], dim=1), keys, values, align=Monotonic())
    assert longer.context[:, :4].allclose(attend(queries, keys, values, align=Monotonic()).context, atol=1e-12)


def test_gradients_are_the_numerical_ones_with_a_mask_and_previous_weights():
    scores, start = draw(2, 4, 6).requires_grad_(), torch.softmax(draw(2, 6, seed=1), -1).requires_grad_()
    mask = torch.arange(6) < torch.tensor([6, 3])[:, None, None]

    def weights(scores, start):
        return Monotonic(bias=-0.3)(scores, mask, PositionInfo(previous_weights=start)).weights

    assert torch.autograd.gradcheck(weights, (scores, start))


def test_vanishing_products_of_moves_lose_no_precision():
    """Scores for which the product of all moves is 0 in float32, so that a division by it would be 0 / 0."""
    torch.manual_seed(1)
    scores = 3 * torch.randn(60, 500, dtype=torch.float64) + 1
    assert torch.sigmoid(-scores[0]).float().prod() == 0
    exact = Monotonic()(scores).weights
    single = scores.float().requires_grad_()
    weights = Monotonic()(single).weights
    likely = exact > 1e-30
    assert likely.any(-1).all()
    assert ((weights.double() - exact).abs() <= 1e-4 * exact)[likely].all()
    weights.square().sum().backward()
    assert single.grad.isfinite().all()
    wide = scores.clone().requires_grad_()
    Monotonic()(wide).weights.square().sum().backward()
    assert (single.grad.double() - wide.grad).norm() <= 1e-5 * wide.grad.norm()


@pytest.mark.parametrize("size", [1e3, 1e30, float("inf")])
def test_extreme_scores_give_no_nan(size):
    scores = (size * torch.sign(draw(4, 9))).float().requires_grad_()
    weights = Monotonic()(scores).weights
    weights.sum().backward()
    assert weights.isfinite().all() and scores.grad.isfinite().all()
    # a certain cursor has one path
    assert set(weights.detach().unique().tolist()) <= {0.0, 1.0}


def test_half_precision_is_computed_in_float32():
    scores = draw(12, 40).bfloat16()
    weights = Monotonic()(scores).weights
    assert weights.dtype == torch.bfloat16
    assert torch.equal(weights, Monotonic()(scores.float()).weights.bfloat16())


def test_nan_reaches_the_queries_that_follow_and_no_earlier_one():
    scores = draw(2, 4, 5)
    clean = Monotonic()(scores).weights
    scores[1, 2, 3] = torch.nan
    weights = Monotonic()(scores).weights
    assert weights[1, 2:, 3:].isnan().all() and weights.isnan().sum() == 4
    assert torch.equal(weights[~weights.isnan()], clean[~weights.isnan()])
    mask = torch.ones(4, 5, dtype=torch.bool).index_fill(0, torch.tensor(3), False)
    assert (Monotonic()(scores, mask).weights[:, 3] == 0).all()


@pytest.mark.parametrize("shape", [(8,), (3, 7), (2, 1, 7)])
def test_previous_weights_of_another_shape_are_an_error(shape):
    with pytest.raises(ValueError, match=r"previous_weights has shape .*, expected \(2, 7\): the weights of the query"):
        Monotonic()(draw(2, 3, 7), None, PositionInfo(previous_weights=torch.zeros(shape)))
