"""The order of training: every example once an epoch, within the budget, the same on every machine, resumable."""

import hashlib

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from regard.data.batching import Batching, BucketedOrder, RowBudget, TokenBudget, batches_by_length, share

LENGTHS = st.lists(st.tuples(st.integers(1, 30), st.integers(1, 30)), max_size=80).map(
    lambda rows: np.array(rows, dtype=np.int64).reshape(-1, 2)
)
BUDGETS = st.one_of(st.integers(1, 100).map(TokenBudget), st.integers(1, 20).map(RowBudget))
SEEDS = st.integers(0, 2**63)


@given(LENGTHS, BUDGETS, SEEDS, st.integers(0, 5))
def test_every_example_occurs_once_within_the_budget(lengths, budget, seed, epoch):
    for batches in (BucketedOrder(lengths, budget=budget, seed=seed).epoch(epoch), batches_by_length(lengths, budget)):
        assert sorted(row for batch in batches for row in batch) == list(range(len(lengths)))
        for batch in batches:
            if isinstance(budget, TokenBudget):
                assert len(batch) == 1 or len(batch) * lengths[batch].max() <= budget.tokens
            else:
                assert 1 <= len(batch) <= budget.count


@given(LENGTHS, BUDGETS, SEEDS, st.integers(0, 5))
def test_an_epoch_does_not_depend_on_those_before(lengths, budget, seed, epoch):
    order = BucketedOrder(lengths, budget=budget, seed=seed)
    epochs = [order.epoch(number) for number in range(epoch + 1)]
    assert BucketedOrder(lengths, budget=budget, seed=seed).epoch(epoch) == epochs[-1]


@given(st.lists(st.integers(), max_size=40), st.integers(1, 9))
def test_shares_divide_a_batch_evenly(batch, of):
    parts = [share(batch, part, of) for part in range(of)]
    assert sorted(row for part in parts for row in part) == sorted(batch)
    sizes = [len(part) for part in parts]
    assert max(sizes) - min(sizes) <= 1
    assert len(batch) < of or min(sizes) > 0


def test_the_order_is_the_same_on_every_machine():
    lengths = np.random.RandomState(0).randint(1, 40, size=(500, 2))
    epoch = BucketedOrder(lengths, budget=TokenBudget(200), seed=7).epoch(3)
    assert hashlib.md5(str(epoch).encode()).hexdigest() == "d52b54d0346f72bf5f928007ed194aaa"


def test_epochs_and_seeds_differ_and_batches_have_similar_lengths():
    lengths = np.random.RandomState(0).randint(1, 40, size=(2000, 2))
    order = BucketedOrder(lengths, budget=TokenBudget(400))
    first, second = order.epoch(0), order.epoch(1)
    assert first != second and first == order.epoch(0)
    assert first != BucketedOrder(lengths, budget=TokenBudget(400), seed=1).epoch(0)
    assert {tuple(sorted(batch)) for batch in first} != {tuple(sorted(batch)) for batch in second}
    costs = lengths.max(axis=1)
    assert sum(costs) / sum(len(batch) * costs[batch].max() for batch in first) > 0.9
    starts = [costs[batch].max() for batch in first]
    assert starts != sorted(starts)


def test_a_long_example_has_a_batch_of_its_own():
    lengths = np.array([[3, 3], [10_001, 2], [3, 2], [4, 4]])
    batches = BucketedOrder(lengths, budget=TokenBudget(12)).epoch(0)
    assert [1] in batches and len(batches) == 2


def test_plain_settings():
    lengths = np.ones((10, 2), dtype=np.int64)
    assert Batching(tokens=4).order(lengths).epoch(0) == BucketedOrder(lengths, budget=TokenBudget(4)).epoch(0)
    assert [len(batch) for batch in Batching(rows=5).order(lengths).epoch(0)] == [5, 5]


def test_wrong_arguments():
    with pytest.raises(ValueError, match="a batch of 0 tokens"):
        TokenBudget(0)
    with pytest.raises(ValueError, match="a batch of -1 rows"):
        RowBudget(-1)
    with pytest.raises(ValueError, match="the seed is -3"):
        BucketedOrder(np.ones((1, 2), dtype=np.int64), budget=RowBudget(1), seed=-3)
    with pytest.raises(ValueError, match="part is 2, expected 0 to 1"):
        share([1], 2, 2)
