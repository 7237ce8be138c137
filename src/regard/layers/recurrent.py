"""Recurrent layers over padded rows: padding never changes what a row gives.

A forward layer never sees what comes after a place, so its states at real places are right whatever follows. A backward
layer reads each row reversed by its own length. A GRU's last state is picked from its outputs; an LSTM's cell is not
among the outputs, so an LSTM whose last state is wanted is told where each row ends. None of this looks at a length, so
that no device is waited for and a whole step can be captured in a CUDA graph. On a CPU, layers that nobody listens to
go by `Steps` instead, with products by kernels/recurrent: the same numbers, and nothing done for padding.

Shapes: B batch, L length, N layers, H hidden units.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn

from regard.kernels import linear
from regard.kernels.recurrent import RepeatedLinear, gru_update, lstm_update
from regard.layers.steps import Steps, going, may_look
from regard.layers.unroll import may_fuse

FROZEN = 1e4
"""So far from 0 that a sigmoid is exactly 0 or 1, and yet within half precision."""
ALIGNED = 8
"""Columns added at a time: tensor cores want sizes that are multiples of this."""

Weights = tuple[Tensor, Tensor, Tensor, Tensor]
"""W, U and the biases of both, in the order in which torch lists them."""


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
        if may_step(self.forwards, lengths) and may_step(self.backwards, lengths):
            steps, turned = Steps.of(lengths, inputs.shape[1]), reverse_rows(inputs, lengths)
            states = step_gru(self.forwards, steps.pack(inputs), steps)
            back = step_gru(self.backwards, steps.pack(turned), steps)
            return torch.cat([steps.unpack(states), reverse_rows(steps.unpack(back), lengths)], dim=-1)
        forwards, _ = self.forwards(inputs)
        backwards, _ = self.backwards(reverse_rows(inputs, lengths))
        return torch.cat([forwards, reverse_rows(backwards, lengths)], dim=-1)


def may_step(layer: nn.RNNBase, lengths: Int[Tensor, " B"]) -> bool:
    """Whether a loop may take the layer's weights: a plain one-way layer with biases, heard by nobody, on a CPU."""
    plain = type(layer) in (nn.GRU, nn.LSTM) and layer.bias and not layer.bidirectional and not layer.proj_size
    return bool(plain) and may_look(lengths) and may_fuse(layer)


def step_gru(gru: nn.GRU, inputs: Float[Tensor, "N input"], steps: Steps) -> Float[Tensor, "N H"]:
    """States of a one-layer GRU that begins with zeros, in the order of the steps."""
    from_input, from_state, input_bias, state_bias = weights_for_queries(gru, 0)
    made = RepeatedLinear(from_state, state_bias, sizes=steps.sizes)
    given = linear(inputs, from_input, input_bias).split(steps.sizes)
    state, states = given[0].new_zeros(steps.sizes[0], gru.hidden_size), []
    for step in given:
        state = going(state, step.shape[0])
        state = gru_update(step, made(state), state)
        states.append(state)
    return torch.cat(states)


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
    """A batch-first one-way LSTM; given lengths, the state is that at each row's own end, and outputs past it are 0."""
    if lengths is None:
        given = None if state is None else (first_layer(state.hidden), first_layer(state.cell))
        outputs, (hidden, cell) = lstm(inputs, given)
        return LSTMRun(outputs=outputs, state=LSTMState(hidden=hidden.transpose(0, 1), cell=cell.transpose(0, 1)))
    if may_step(lstm, lengths):
        return step_lstm(lstm, inputs, state, lengths)
    real = torch.arange(inputs.shape[1], device=inputs.device) < lengths[:, None]
    outputs, ends = inputs, []
    for number in range(lstm.num_layers):
        begun = None if state is None else LSTMState(hidden=state.hidden[:, [number]], cell=state.cell[:, [number]])
        if number:
            outputs = F.dropout(outputs, lstm.dropout, lstm.training)
        outputs, cell = run_frozen(outputs, weights_for_queries(lstm, number), begun, lengths)
        ends.append((last_states(outputs, lengths), cell))
    hidden, cells = (torch.stack(parts, dim=1) for parts in zip(*ends, strict=True))
    return LSTMRun(outputs=outputs * real.unsqueeze(-1), state=LSTMState(hidden=hidden, cell=cells))


def step_lstm(
    lstm: nn.LSTM, inputs: Float[Tensor, "B L input"], state: LSTMState | None, lengths: Int[Tensor, " B"]
) -> LSTMRun:
    """`run_lstm` with lengths, step by step."""
    steps, size = Steps.of(lengths, inputs.shape[1]), lstm.hidden_size
    outputs, ends = steps.pack(inputs), []
    for number in range(lstm.num_layers):
        if number:
            outputs = F.dropout(outputs, lstm.dropout, lstm.training)
        from_input, from_state, input_bias, state_bias = weights_for_queries(lstm, number)
        made = RepeatedLinear(from_state, sizes=steps.sizes)
        given = linear(outputs, from_input, input_bias + state_bias).split(steps.sizes)
        hidden = cell = given[0].new_zeros(steps.sizes[0], size)
        if state is not None:
            hidden, cell = (steps.sort(part[:, number]) for part in (state.hidden, state.cell))
        shown, cells = [], []
        for step in given:
            hidden, cell = lstm_update(made(going(hidden, len(step)), step), going(cell, len(step)))
            shown.append(hidden)
            cells.append(cell)
        outputs = torch.cat(shown)
        padded = steps.unpack(outputs)
        ends.append((last_states(padded, lengths), last_states(steps.unpack(torch.cat(cells)), lengths)))
    real = torch.arange(inputs.shape[1], device=inputs.device) < lengths[:, None]
    hidden, cell = (torch.stack(parts, dim=1) for parts in zip(*ends, strict=True))
    return LSTMRun(outputs=padded * real.unsqueeze(-1), state=LSTMState(hidden=hidden, cell=cell))


def first_layer(part: Float[Tensor, "B N H"]) -> Float[Tensor, "N B H"]:
    """As torch's layers take a state: layers before rows."""
    return part.transpose(0, 1).contiguous()


def weights_for_queries(layer: nn.RNNBase, number: int) -> Weights:
    """W, U and both biases of one layer of a stack."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    from_input, from_state, input_bias, state_bias = (getattr(layer, f"{name}_l{number}") for name in names)
    return from_input, from_state, input_bias, state_bias


def run_frozen(
    inputs: Float[Tensor, "B L input"], weights: Weights, state: LSTMState | None, lengths: Int[Tensor, " B"]
) -> tuple[Float[Tensor, "B L H"], Float[Tensor, "B H"]]:
    """One layer by torch's own kernel; outputs, and the cell at each row's end, which is kept to the last place.

    One more input says that a row has ended. Its weights shut the input gate and open the forget gate for good, so that
    i = 0, f = 1 and c' = c exactly, and no gradient comes from there.
    """
    from_input, from_state, *biases = weights
    size = from_state.shape[1]
    ended = torch.arange(inputs.shape[1], device=inputs.device) >= lengths[:, None]
    columns = from_input.new_zeros(4 * size, ALIGNED)
    columns[:size, 0], columns[size : 2 * size, 0] = -FROZEN, FROZEN
    told = F.pad(ended.unsqueeze(-1).to(inputs.dtype), (0, ALIGNED - 1))
    parts = [torch.cat([from_input, columns], dim=1), from_state, *biases]
    # one after the other in one piece of memory, as cuDNN wants them
    flat = torch.cat([part.flatten() for part in parts]).split([part.numel() for part in parts])
    laid = [piece.view(part.shape) for piece, part in zip(flat, parts, strict=True)]
    zeros = inputs.new_zeros(1, inputs.shape[0], size)
    begun = (zeros, zeros) if state is None else (first_layer(state.hidden), first_layer(state.cell))
    given = torch.cat([inputs, told], dim=-1)
    # has_biases, num_layers, dropout, train, bidirectional, batch_first
    outputs, _, cell = torch.lstm(given, begun, laid, True, 1, 0.0, torch.is_grad_enabled(), False, True)
    return outputs, cell[0]
