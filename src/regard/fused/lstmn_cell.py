"""Fused loops over an LSTMN cell: a whole text from an empty memory, or the last S cells of a longer one.

The summary's products with the gates and with the next query are one. All cells are in one buffer (kernels/recurrent),
where the readable cell concatenates them at every step.

Shapes: B batch, L positions, S cells of a window, H hidden size.
"""

from typing import cast

import torch
from jaxtyping import Float
from torch import Tensor

from regard.kernels.recurrent import (
    LSTMN_ORDER,
    DeferredLinear,
    MemoryBuffer,
    WindowedMemoryBuffer,
    lstm_update,
)
from regard.layers import (
    LSTMNCell,
    LSTMNMemory,
    LSTMNScore,
    LSTMNStack,
    WindowedMemory,
    WindowedRun,
    advance_window,
    memory_of,
)


class CellLoop:
    """The steps of one cell, each with the numbers of `LSTMNCell.forward`.

    It begins with an empty memory and attends to all cells, or with a window, and attends to the last S cells.
    """

    def __init__(self, cell: LSTMNCell, *, num_steps: int, batch_size: int, window: LSTMNMemory | None = None) -> None:
        self.size = cell.hidden_size
        score = cast(LSTMNScore, cell.look.attention.score)
        # W of the gates and of the query act on the same summary: one product with (4 H + H) rows
        joined = torch.cat([cell.gates.weight, cell.look.summary_proj.weight])
        # the summary's projection has no bias
        bias = torch.cat([cell.gates.bias, joined.new_zeros(self.size)])
        self.from_summary = DeferredLinear(joined, bias, num_steps=num_steps, batch_size=batch_size)
        self.key = DeferredLinear(score.key_proj.weight, num_steps=num_steps, batch_size=batch_size)
        # under autocast the keys have its precision, and the energy must have that of the keys
        energy = score.energy.to(self.key.weight.dtype)
        self.memory: MemoryBuffer
        if window is None:
            num_cells = num_steps + cell.zero_cell
            self.memory = MemoryBuffer(energy, batch_size=batch_size, num_cells=num_cells, cell_size=2 * self.size)
            if cell.zero_cell:
                # attended to, and not among `self.cells`
                zeros = energy.new_zeros(batch_size, 2 * self.size)
                self.memory.append(zeros[:, : self.size], zeros)
            self.query_share: Tensor | None = None
        else:
            assert window.valid is not None
            self.memory = WindowedMemoryBuffer(energy, window.keys, window.cells, window.valid, num_cells=num_steps)
            self.query_share = cell.look.summary_proj(window.summary)
        self.keys: list[Tensor] = []
        self.cells: list[Tensor] = []
        self.summary: Tensor | None = None

    def __call__(
        self, projected: Float[Tensor, "B five"], extra: Float[Tensor, "B H"] | None = None
    ) -> Float[Tensor, "B H"]:
        """The hidden state of the next cell."""
        query, input_gates = projected.split([self.size, 4 * self.size], dim=-1)
        # W_g h~ is 0 before the first cell of an empty memory
        query = query if self.query_share is None else query + self.query_share
        # (B, 2 H): the attended hidden state h~ and memory c~
        self.summary, past_cell = self.memory.attend(query).chunk(2, dim=-1)
        gates, self.query_share = self.from_summary(self.summary).split([4 * self.size, self.size], dim=-1)
        hidden, cell = lstm_update(gates + input_gates, past_cell, extra, order=LSTMN_ORDER)
        self.keys.append(self.key(hidden))
        self.cells.append(torch.cat([hidden, cell], dim=-1))
        # appended after attention: a cell never attends to its own state
        self.memory.append(self.keys[-1], self.cells[-1])
        return hidden


def run_cell(cell: LSTMNCell, inputs: Float[Tensor, "B L input"]) -> LSTMNMemory:
    """As `LSTMNCell.run` from the memory before the first word, with the cells of the words alone."""
    batch_size, num_steps, _ = inputs.shape
    loop = CellLoop(cell, num_steps=num_steps, batch_size=batch_size)
    # positions first, so that the memory of one step is contiguous
    for projected in cell.project(inputs.transpose(0, 1)).unbind(0):
        loop(projected)
    assert loop.summary is not None
    return LSTMNMemory(keys=torch.stack(loop.keys, dim=1), cells=torch.stack(loop.cells, dim=1), summary=loop.summary)


def run_stack(stack: LSTMNStack, inputs: Float[Tensor, "B L input"]) -> tuple[LSTMNMemory, ...]:
    """As `LSTMNStack.run`, with the cells of the words alone."""
    memories: list[LSTMNMemory] = []
    for cell in stack.cells:
        memories.append(run_cell(cell, stack.dropout(memories[-1].hidden) if memories else inputs))
    return tuple(memories)


def run_windowed(cell: LSTMNCell, inputs: Float[Tensor, "B L input"], window: WindowedMemory) -> WindowedRun:
    """As `regard.layers.run_windowed`, for a text of at least one word."""
    batch_size, num_steps, _ = inputs.shape
    loop = CellLoop(cell, num_steps=num_steps, batch_size=batch_size, window=memory_of(cell, window))
    for projected in cell.project(inputs.transpose(0, 1)).unbind(0):
        loop(projected)
    assert loop.summary is not None
    return advance_window(cell, window, torch.stack(loop.cells, dim=1), loop.summary)
