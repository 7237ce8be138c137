"""Recurrent layers over padded rows: padding never changes what a row gives.

A forward layer never sees what comes after a place, so its states at real places are right whatever follows. A backward
layer reads each row reversed by its own length. A GRU's last state is picked from its outputs; an LSTM's cell is not
among the outputs, so an LSTM whose last state is wanted reads packed rows.

Shapes: B batch, L length, N layers, H hidden units.
"""

from dataclasses import dataclass

import torch
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


def reverse_rows(rows: Shaped[Tensor, "B L *size"], lengths: Int[Tensor, " B"]) -> Shaped[Tensor, "B L *size"]:
    """Each row's real places in reverse order; its padding stays where it is."""
    places = torch.arange(rows.shape[1], device=rows.device)
    mirrored = lengths[:, None] - 1 - places
    index = torch.where(mirrored >= 0, mirrored, places)
    return rows.gather(1, index.view(*index.shape, *(1 for _ in rows.shape[2:])).expand_as(rows))


def last_states(states: Float[Tensor, "B L H"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B H"]:
    """The state at each row's last real place."""
    index = (lengths - 1)[:, None, None].expand(-1, 1, states.shape[2])
    return states.gather(1, index).squeeze(1)


class BidirectionalGRU(nn.Module):
    """One GRU reads each row forwards, another backwards; a place gets both states, [forward; backward]."""

    def __init__(self, *, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.forwards = nn.GRU(input_size, hidden_size, batch_first=True)
        self.backwards = nn.GRU(input_size, hidden_size, batch_first=True)

    def forward(self, inputs: Float[Tensor, "B L input"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B L states"]:
        """States of twice the hidden size."""
        forwards, _ = self.forwards(inputs)
        backwards, _ = self.backwards(reverse_rows(inputs, lengths))
        return torch.cat([forwards, reverse_rows(backwards, lengths)], dim=-1)


class GRUUpdate(nn.Module):
    """One GRU step from the input's share of the three gates, which may be computed for all places beforehand.

        r, z = sigmoid(gates_rz + U_rz s),   s~ = tanh(gates_s + U (r * s)),   s' = (1 - z) s + z s~

    Cho et al. 2014, section 2.3, with the reset gate inside the product and z for what is new, as Bahdanau 2015 A.1.1.
    """

    def __init__(self, *, hidden_size: int) -> None:
        super().__init__()
        self.gates = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.candidate = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, gates: Float[Tensor, "B three_H"], state: Float[Tensor, "B H"]) -> Float[Tensor, "B H"]:
        """The next state; `gates` are ordered reset, update, candidate."""
        given, new = gates.split([2 * state.shape[1], state.shape[1]], dim=-1)
        reset, update = torch.sigmoid(given + self.gates(state)).chunk(2, dim=-1)
        return state + update * (torch.tanh(new + self.candidate(reset * state)) - state)


@dataclass(frozen=True, kw_only=True)
class LSTMState:
    """Hidden and cell of every layer, batch first."""

    hidden: Float[Tensor, "B N H"]
    cell: Float[Tensor, "B N H"]


@dataclass(frozen=True, kw_only=True)
class LSTMRun:
    """The top layer's hidden state at every place, and the state of all layers at each row's last."""

    outputs: Float[Tensor, "B L H"]
    state: LSTMState


def run_lstm(
    lstm: nn.LSTM,
    inputs: Float[Tensor, "B L input"],
    *,
    state: LSTMState | None = None,
    lengths: Int[Tensor, " B"] | None = None,
) -> LSTMRun:
    """A batch-first one-way LSTM over rows; given lengths, the state is that at each row's own end, outputs past it 0.

    Packing asks the host for the lengths: on a GPU that waits once for the work before it.
    """
    given = None if state is None else tuple(part.transpose(0, 1).contiguous() for part in (state.hidden, state.cell))
    if lengths is None:
        outputs, (hidden, cell) = lstm(inputs, given)
    else:
        packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
        outputs, (hidden, cell) = lstm(packed, given)
        outputs, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])
    return LSTMRun(outputs=outputs, state=LSTMState(hidden=hidden.transpose(0, 1), cell=cell.transpose(0, 1)))
