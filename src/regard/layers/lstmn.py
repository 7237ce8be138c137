"""LSTMN cell: an LSTM that attends to all its past states before every step, in place of its one memory.

    a_i  = v . tanh(W_h h_i + W_x x_t + W_g h~_{t-1}),   i < t
    s    = softmax(a),   h~_t = sum_i s_i h_i,   c~_t = sum_i s_i c_i
    i, f, o = sigmoid(W [h~_t; x_t]),   c^ = tanh(W_c [h~_t; x_t])
    c_t  = f c~_t + i c^,   h_t = o tanh(c_t)

Cheng, Dong and Lapata 2016, section 3. https://arxiv.org/abs/1601.06733
The paper calls h_1 .. h_t the hidden tape and c_1 .. c_t the memory tape. Before the first word both are empty, and h~
and c~ are zeros; `zero_cell` puts a cell of zeros before it, as the authors' code does. What depends on the input alone
is one product, which `project` computes for many positions at once. `run_windowed` keeps the last S cells only, so that
a state has one shape however long the text is.

Shapes: B batch, L positions, t cells written so far, S cells of a window, H hidden size.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

import torch
import torch.nn.functional as F
from jaxtyping import Bool, Float
from torch import Tensor, nn

from regard.attention import Attention
from regard.contracts import Alignment, Attended, LoweredSum, Memory, PositionInfo
from regard.kernels.additive import additive_scores


@dataclass(frozen=True, kw_only=True)
class LSTMNMemory:
    """Hidden and memory tape side by side as [h; c], the keys W_h h, and the last summary h~.

    `valid` says which cells were written, in a window that may be partly empty; None if all were.
    """

    keys: Float[Tensor, "B t H"]
    cells: Float[Tensor, "B t both"]
    summary: Float[Tensor, "B H"]
    valid: Bool[Tensor, "B t"] | None = None

    @property
    def hidden(self) -> Float[Tensor, "B t H"]:
        """The hidden tape."""
        return self.cells[..., : self.summary.shape[-1]]

    @property
    def last(self) -> Float[Tensor, "B H"]:
        """The last hidden state; zeros while there is none."""
        # cells of a window that were not written are zeros, so this holds for windows too
        return self.hidden[:, -1] if self.cells.shape[1] else torch.zeros_like(self.summary)

    def recent(self, span: int) -> "LSTMNMemory":
        """The last `span` cells alone."""
        # span is at least 1: a slice from -0 would keep everything
        valid = None if self.valid is None else self.valid[:, -span:]
        return LSTMNMemory(keys=self.keys[:, -span:], cells=self.cells[:, -span:], summary=self.summary, valid=valid)


class LSTMNScore(nn.Module):
    """score(q, h) = v . tanh(W_h h + q): the additive score of queries that are projected already."""

    def __init__(self, *, hidden_size: int) -> None:
        super().__init__()
        self.key_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.energy = nn.Parameter(torch.empty(hidden_size))
        # as nn.Linear initialises the weight of one output
        bound = hidden_size**-0.5
        nn.init.uniform_(self.energy, -bound, bound)

    def prepare(self, keys: Float[Tensor, "*B K H"]) -> Float[Tensor, "*B K H"]:
        """W_h h, once for every cell."""
        return self.key_proj(keys)

    def forward(self, queries: Float[Tensor, "*#B Q H"], keys: Float[Tensor, "*#B K H"]) -> Float[Tensor, "*B Q K"]:
        """Score every query against every prepared key."""
        return additive_scores(queries, keys, self.energy)

    def lower(self, queries: Float[Tensor, "... Q H"], keys: Float[Tensor, "... K H"]) -> LoweredSum:
        """The score in the form that kernels of additive attention take."""
        return LoweredSum(queries=queries, keys=keys, energy=self.energy)


class LSTMNAttention(nn.Module):
    """Attention to the tapes of this cell or of another, by the input and the last summary."""

    def __init__(self, *, hidden_size: int, align: Alignment | None = None) -> None:
        super().__init__()
        self.summary_proj = nn.Linear(hidden_size, hidden_size, bias=False)
        self.attention = Attention(LSTMNScore(hidden_size=hidden_size), align)

    def prepare(self, hidden: Float[Tensor, "*B K H"]) -> Float[Tensor, "*B K H"]:
        """Keys of these hidden states."""
        return self.attention.score.prepare(hidden)

    def forward(
        self,
        projected: Float[Tensor, "B H"],
        summary: Float[Tensor, "B H"],
        memory: Memory,
        *,
        position_info: PositionInfo | None = None,
        return_weights: bool = False,
    ) -> Attended:
        """One query, W_x x_t + W_g h~_{t-1}; `projected` is W_x x_t."""
        # (B, H) -> (B, 1, H): one query
        query = (projected + self.summary_proj(summary)).unsqueeze(1)
        return self.attention(query, memory, position_info=position_info, return_weights=return_weights)


class LSTMNCell(nn.Module):
    """One layer. The memory is an argument and a result."""

    def __init__(self, *, input_size: int, hidden_size: int, zero_cell: bool = False) -> None:
        super().__init__()
        self.hidden_size, self.zero_cell = hidden_size, zero_cell
        # H outputs for the query and 4 H for the gates in one product; the bias is in `gates`
        self.input_proj = nn.Linear(input_size, 5 * hidden_size, bias=False)
        self.look = LSTMNAttention(hidden_size=hidden_size)
        self.gates = nn.Linear(hidden_size, 4 * hidden_size)

    def start(self, states: Float[Tensor, "B ..."]) -> LSTMNMemory:
        """The memory before the first word, with the batch size, device and precision of `states`."""
        batch_size, size, num_cells = states.shape[0], self.hidden_size, int(self.zero_cell)
        return LSTMNMemory(
            # the key of a cell of zeros is W_h 0 = 0
            keys=states.new_zeros(batch_size, num_cells, size),
            cells=states.new_zeros(batch_size, num_cells, 2 * size),
            summary=states.new_zeros(batch_size, size),
        )

    def set_forget_bias(self, bias: float) -> None:
        """Set the bias of the forget gate."""
        # gates are ordered input, forget, output, candidate
        nn.init.constant_(self.gates.bias.data[self.hidden_size : 2 * self.hidden_size], bias)

    def project(self, inputs: Float[Tensor, "*B input"]) -> Float[Tensor, "*B five"]:
        """The inputs' share of the query and of the four gates, for any number of positions at once."""
        return self.input_proj(inputs)

    def forward(
        self, projected: Float[Tensor, "B five"], memory: LSTMNMemory, extra: Float[Tensor, "B H"] | None = None
    ) -> LSTMNMemory:
        """Attend to the past cells, then write one more; `extra` is added to c_t (r * alpha~ of deep fusion)."""
        query, gates = projected.split([self.hidden_size, 4 * self.hidden_size], dim=-1)
        # the values are [h; c], so one softmax serves both tapes
        past = Memory(keys=memory.keys, values=memory.cells, mask=memory.valid)
        attended = self.look(query, memory.summary, past).context[:, 0]
        summary, past_cell = attended.chunk(2, dim=-1)
        # the order i, f, o, candidate is that of LSTMN_ORDER, by which the fused loop splits the same weights
        input_gate, forget_gate, output_gate, candidate = (gates + self.gates(summary)).chunk(4, dim=-1)
        cell = torch.sigmoid(forget_gate) * past_cell + torch.sigmoid(input_gate) * torch.tanh(candidate)
        cell = cell if extra is None else cell + extra
        hidden = torch.sigmoid(output_gate) * torch.tanh(cell)
        both = torch.cat([hidden, cell], dim=-1)
        return LSTMNMemory(
            # a copy of the whole tape at every step, quadratic in the length; regard.fused writes into one buffer
            keys=torch.cat([memory.keys, self.look.prepare(hidden).unsqueeze(1)], dim=1),
            cells=torch.cat([memory.cells, both.unsqueeze(1)], dim=1),
            summary=summary,
            # (B, t) -> (B, t + 1): a new cell is valid
            valid=None if memory.valid is None else F.pad(memory.valid, (0, 1), value=True),
        )

    def run(self, inputs: Float[Tensor, "B L input"], memory: LSTMNMemory) -> LSTMNMemory:
        """Read a whole text; its hidden states are the last L of the memory."""
        for projected in self.project(inputs).unbind(dim=1):
            memory = self(projected, memory)
        return memory


class LSTMNStack(nn.Module):
    """Several layers, each reading the hidden states of the one below; dropout between them."""

    def __init__(
        self,
        *,
        input_size: int,
        hidden_size: int,
        num_layers: int = 1,
        dropout: float = 0.0,
        zero_cell: bool = False,
    ) -> None:
        super().__init__()
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        cells = [LSTMNCell(input_size=size, hidden_size=hidden_size, zero_cell=zero_cell) for size in sizes]
        self.cells = cast("Sequence[LSTMNCell]", nn.ModuleList(cells))
        self.dropout = nn.Dropout(dropout)

    def start(self, states: Float[Tensor, "B ..."]) -> tuple[LSTMNMemory, ...]:
        """An empty memory for every layer."""
        return tuple(cell.start(states) for cell in self.cells)

    def project(self, inputs: Float[Tensor, "*B input"]) -> Float[Tensor, "*B five"]:
        """The inputs' share of the first layer, for any number of positions at once."""
        return self.cells[0].project(inputs)

    def forward(self, projected: Float[Tensor, "B five"], memories: tuple[LSTMNMemory, ...]) -> tuple[LSTMNMemory, ...]:
        """Write one cell in every layer."""
        updated: list[LSTMNMemory] = []
        for cell, memory in zip(self.cells, memories, strict=True):
            # the first layer's share comes from all positions at once; those above depend on this step's states
            share = cell.project(self.dropout(updated[-1].last)) if updated else projected
            updated.append(cell(share, memory))
        return tuple(updated)

    def run(self, inputs: Float[Tensor, "B L input"]) -> tuple[LSTMNMemory, ...]:
        """Read a whole text layer by layer; no cell attends to a later one, so padding may follow a text."""
        memories: list[LSTMNMemory] = []
        # a layer at a time, so that each one projects all positions in one product
        for cell, memory in zip(self.cells, self.start(inputs), strict=True):
            # without the cell of zeros of the layer below
            below = memories[-1].hidden[:, -inputs.shape[1] :] if memories else inputs
            memories.append(cell.run(self.dropout(below) if memories else inputs, memory))
        return tuple(memories)


@dataclass(frozen=True, kw_only=True)
class WindowedMemory:
    """The last S cells as [h; c], which of them were written, and the last summary h~.

    Keys are not part of it: they are computed from the hidden states with the current weights.
    """

    cells: Float[Tensor, "B S both"]
    valid: Bool[Tensor, "B S"]
    summary: Float[Tensor, "B H"]


@dataclass(frozen=True, kw_only=True)
class WindowedRun:
    """The hidden state at every position, and the memory after the last."""

    hidden: Float[Tensor, "B L H"]
    memory: WindowedMemory


def start_windowed(cell: LSTMNCell, *, batch_size: int, span: int) -> WindowedMemory:
    """A window of `span` cells, none of them written."""
    summary = cell.input_proj.weight.new_zeros(batch_size, cell.hidden_size)
    cells = summary.new_zeros(batch_size, span, 2 * cell.hidden_size)
    return WindowedMemory(cells=cells, valid=cells.new_zeros(batch_size, span, dtype=torch.bool), summary=summary)


def run_windowed(cell: LSTMNCell, inputs: Float[Tensor, "B L input"], window: WindowedMemory) -> WindowedRun:
    """Read a text, attending to the last S cells before every word."""
    # torch.stack below rejects an empty list
    if not inputs.shape[1]:
        return WindowedRun(hidden=window.cells[:, :0, : cell.hidden_size], memory=window)
    memory = memory_of(cell, window)
    span, new_cells = memory.cells.shape[1], []
    for projected in cell.project(inputs).unbind(dim=1):
        # the step makes S + 1 cells, of which the oldest is dropped
        memory = cell(projected, memory).recent(span)
        new_cells.append(memory.cells[:, -1])
    return advance_window(cell, window, torch.stack(new_cells, dim=1), memory.summary)


def memory_of(cell: LSTMNCell, window: WindowedMemory) -> LSTMNMemory:
    """The cells of a window with their keys."""
    keys = cell.look.prepare(window.cells[..., : cell.hidden_size])
    return LSTMNMemory(keys=keys, cells=window.cells, summary=window.summary, valid=window.valid)


def advance_window(
    cell: LSTMNCell,
    window: WindowedMemory,
    new_cells: Float[Tensor, "B L both"],
    summary: Float[Tensor, "B H"],
) -> WindowedRun:
    """The window after L more cells, in the precision of the window before; each new cell replaces the oldest one."""
    length = new_cells.shape[1]
    # autocast may change the dtype of new cells; a state must have the same one in every segment
    cells = torch.cat([window.cells, new_cells.to(window.cells.dtype)], dim=1)[:, length:]
    valid = torch.cat([window.valid, window.valid.new_ones(len(new_cells), length)], dim=1)[:, length:]
    memory = WindowedMemory(cells=cells, valid=valid, summary=summary.to(window.summary.dtype))
    return WindowedRun(hidden=new_cells[..., : cell.hidden_size], memory=memory)
