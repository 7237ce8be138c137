"""The best columns by blocks are the best columns."""

import pytest
import torch

from regard.decoding.top import BLOCK, FEWEST_BLOCKS, best, blocks_pay, top

WIDTH = BLOCK * FEWEST_BLOCKS


@pytest.mark.parametrize("width", [5, WIDTH, WIDTH + 1, 2 * WIDTH - 1, 10_000])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float64, torch.bfloat16])
def test_the_same_as_torch(width, dtype):
    values = torch.randn(7, width + 2).to(dtype)[:, 2:]
    assert best(values).equal(values.argmax(dim=1))
    for count in (1, 3, 5):
        found, columns = top(values, count)
        assert found.equal(values.topk(count, dim=1).values)
        assert values.gather(1, columns).equal(found)
        assert all(len(set(row)) == count for row in columns.tolist())


def test_the_first_of_equals_and_the_tail():
    values = torch.zeros(3, WIDTH + 5)
    assert blocks_pay(values, 1)
    values[0, [70, 700, WIDTH + 1]] = 1.0
    values[1, WIDTH + 3] = 1.0
    assert best(values).tolist() == [70, WIDTH + 3, 0]
