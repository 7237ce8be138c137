"""Operations that searches share: best columns, values of every step, when to transfer and when to compact."""

import math

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor

BLOCK = 64
"""Columns of a block."""
MIN_BLOCKS = 16
"""Fewest blocks for which a search by blocks is faster than a search of all columns."""
MIN_ROWS = 16
"""Fewest rows for which a search by blocks is faster; below, its additional calls cost more than it saves."""


def best_column(values: Float[Tensor, "N V"]) -> Int[Tensor, " N"]:
    """The column of each row's highest value; the first of equal ones."""
    if len(values) < MIN_ROWS or not supports_blocks(values, 1):
        return values.argmax(dim=1)
    blocks, tail = split_columns(values)
    # argmax gives the first block with the maximum, and candidates keep the order of their columns
    block_indices = blocks.amax(dim=2).argmax(dim=1, keepdim=True)
    candidates, columns = candidates_of(blocks, tail, block_indices)
    return columns.gather(1, candidates.argmax(dim=1, keepdim=True))[:, 0]


def best_columns(values: Float[Tensor, "N V"], count: int) -> tuple[Float[Tensor, "N k"], Int[Tensor, "N k"]]:
    """The `count` highest values of each row and their columns, highest first.

    On a CPU, torch's topk and argmax compare a row element by element, while amax is vectorised. The k highest values
    of a row are in the k blocks with the highest maxima, so only these blocks and the columns that fill no block are
    searched.
    """
    if not supports_blocks(values, count):
        highest = values.topk(count, dim=1)
        return highest.values, highest.indices
    if len(values) < MIN_ROWS:
        highest = values.topk(count + 1, dim=1)
        # topk and the search by blocks order equal values differently. With one order for every number of rows, no
        # output depends on the rest of the batch.
        if not (highest.values[:, 1:] == highest.values[:, :-1]).any():
            return highest.values[:, :count].contiguous(), highest.indices[:, :count].contiguous()
    blocks, tail = split_columns(values)
    block_indices = blocks.amax(dim=2).topk(count, dim=1).indices
    candidates, columns = candidates_of(blocks, tail, block_indices)
    highest = candidates.topk(count, dim=1)
    return highest.values, columns.gather(1, highest.indices)


def supports_blocks(values: Tensor, count: int) -> bool:
    """Whether a search by blocks would leave out most of a row."""
    return values.device.type == "cpu" and values.shape[1] >= BLOCK * max(4 * count, MIN_BLOCKS)


def split_columns(values: Tensor) -> tuple[Tensor, Tensor]:
    """Whole blocks, [N, blocks, BLOCK], and the remaining columns, [N, fewer than BLOCK]."""
    num_covered = values.shape[1] // BLOCK * BLOCK
    return values[:, :num_covered].unflatten(1, (-1, BLOCK)), values[:, num_covered:]


def candidates_of(blocks: Tensor, tail: Tensor, block_indices: Tensor) -> tuple[Tensor, Tensor]:
    """Values and columns of the chosen blocks and of the remaining columns."""
    num_rows, count = block_indices.shape
    offsets = torch.arange(BLOCK, device=block_indices.device)
    values = blocks.gather(1, block_indices[:, :, None].expand(num_rows, count, BLOCK)).flatten(1)
    # (N, count, BLOCK) becomes (N, count * BLOCK)
    columns = (block_indices[:, :, None] * BLOCK + offsets).flatten(1)
    if not tail.shape[1]:
        return values, columns
    num_covered = blocks.shape[1] * BLOCK
    tail_columns = torch.arange(num_covered, num_covered + tail.shape[1], device=block_indices.device).expand(
        num_rows, -1
    )
    return torch.cat([values, tail], dim=1), torch.cat([columns, tail_columns], dim=1)


def transfer_interval(device: torch.device) -> int:
    """Steps between two transfers of tokens to the host: on a GPU each one stalls the queue of kernels."""
    return 1 if device.type == "cpu" else 4


def compaction_pays(num_closed: int, num_examples: int) -> bool:
    """Whether the steps without the closed examples save more than copying the state of the others costs."""
    return num_closed * 4 >= num_examples


class StepValues:
    """One tensor per step, with a row for each source that is still in the batch."""

    def __init__(self) -> None:
        self.parts: list[tuple[list[int], list[Tensor]]] = []

    def add(self, sources: list[int], values: Shaped[Tensor, "n ..."]) -> None:
        """The values of one step for these sources, in this order."""
        # steps of one list of sources are stacked and transferred together
        if not self.parts or self.parts[-1][0] is not sources:
            self.parts.append((sources, []))
        self.parts[-1][1].append(values)

    def by_source(self) -> dict[int, Shaped[Tensor, "T ..."]]:
        """All steps of each source, on the host."""
        parts: dict[int, list[Tensor]] = {}
        for sources, steps in self.parts:
            # one transfer for all steps of these sources
            stacked = torch.stack(steps, dim=1).cpu()
            for source, values in zip(sources, stacked, strict=True):
                parts.setdefault(source, []).append(values)
        return {source: torch.cat(values) for source, values in parts.items()}


def outside_inference(tensor: Tensor) -> Tensor:
    """A copy that is no inference tensor: autograd may use it."""
    # clone, since a view of an inference tensor would be one too
    with torch.inference_mode(False):
        return tensor.clone()


def check_not_nan(log_prob: float, number: int, *, what: str = "source") -> None:
    """Refuse a log-probability that is NaN."""
    if math.isnan(log_prob):
        raise ValueError(
            f"the model gives NaN for {what} {number}: its parameters are not finite, or overflow in this precision. "
            f"Load an earlier checkpoint, or decode in float32."
        )
