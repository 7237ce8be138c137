"""The best columns by blocks are the best columns, and the number of rows does not change the order of equal ones."""

import pytest
import torch

from regard.decoding.ops import BLOCK, MIN_BLOCKS, MIN_ROWS, best_column, best_columns, supports_blocks

WIDTH = BLOCK * MIN_BLOCKS


@pytest.mark.parametrize("num_rows", [MIN_ROWS - 1, MIN_ROWS])
@pytest.mark.parametrize("width", [5, WIDTH, WIDTH + 1, 2 * WIDTH - 1, 10_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_columns_equal_those_of_torch(width, dtype, num_rows):
    values = torch.randn(num_rows, width + 2).to(dtype)[:, 2:]
    assert best_column(values).equal(values.argmax(dim=1))
    for count in (1, 3, 5):
        highest, columns = best_columns(values, count)
        assert highest.equal(values.topk(count, dim=1).values)
        assert values.gather(1, columns).equal(highest)
        assert all(len(set(row)) == count for row in columns.tolist())


@pytest.mark.parametrize("num_rows", [3, MIN_ROWS])
def test_the_first_maximum_wins_also_in_the_last_block(num_rows):
    values = torch.zeros(num_rows, WIDTH + 5)
    assert supports_blocks(values, 1)
    values[0, [70, 700, WIDTH + 1]] = 1.0
    values[1, WIDTH + 3] = 1.0
    assert best_column(values).tolist() == [70, WIDTH + 3, *[0] * (num_rows - 2)]


def test_equal_values_have_one_order_for_every_number_of_rows():
    values = torch.randint(0, 40, (3 * MIN_ROWS, 10_000)).float()
    together = best_columns(values, 5)[1]
    assert not together.equal(values.topk(5, dim=1).indices), "the orders must differ for the test to be meaningful"
    assert torch.cat([best_columns(row[None], 5)[1] for row in values]).equal(together)
