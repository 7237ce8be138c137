"""The best columns of each row, fast on a CPU: torch's argmax and topk walk a row element by element, amax does not.

    the k best elements lie in the k blocks with the highest maxima

so block maxima (vectorised) choose k blocks, and only those and the tail that fills no block are searched.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor

BLOCK = 64
FEWEST_BLOCKS = 16


def best(values: Float[Tensor, "N V"]) -> Int[Tensor, " N"]:
    """The column of each row's highest value; the first of equals."""
    if not blocks_pay(values, 1):
        return values.argmax(dim=1)
    blocks, tail = split(values)
    block = blocks.amax(dim=2).argmax(dim=1, keepdim=True)
    candidates, columns = inside(blocks, tail, block)
    return columns.gather(1, candidates.argmax(dim=1, keepdim=True))[:, 0]


def top(values: Float[Tensor, "N V"], count: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """The `count` highest values of each row and their columns, highest first."""
    if not blocks_pay(values, count):
        kept = values.topk(count, dim=1)
        return kept.values, kept.indices
    blocks, tail = split(values)
    block = blocks.amax(dim=2).topk(count, dim=1).indices
    candidates, columns = inside(blocks, tail, block)
    kept = candidates.topk(count, dim=1)
    return kept.values, columns.gather(1, kept.indices)


def blocks_pay(values: Tensor, count: int) -> bool:
    """Whether most of a row would be left out."""
    return values.device.type == "cpu" and values.shape[1] >= BLOCK * max(4 * count, FEWEST_BLOCKS)


def split(values: Tensor) -> tuple[Tensor, Tensor]:
    """Whole blocks, [N, blocks, BLOCK], and the columns that are left over, [N, fewer than BLOCK]."""
    covered = values.shape[1] // BLOCK * BLOCK
    return values[:, :covered].unflatten(1, (-1, BLOCK)), values[:, covered:]


def inside(blocks: Tensor, tail: Tensor, chosen: Tensor) -> tuple[Tensor, Tensor]:
    """Values and columns of the chosen blocks and of the tail."""
    rows, count = chosen.shape
    offsets = torch.arange(BLOCK, device=chosen.device)
    values = blocks.gather(1, chosen[:, :, None].expand(rows, count, BLOCK)).flatten(1)
    columns = (chosen[:, :, None] * BLOCK + offsets).flatten(1)
    if not tail.shape[1]:
        return values, columns
    covered = blocks.shape[1] * BLOCK
    ends = torch.arange(covered, covered + tail.shape[1], device=chosen.device).expand(rows, -1)
    return torch.cat([values, tail], dim=1), torch.cat([columns, ends], dim=1)
