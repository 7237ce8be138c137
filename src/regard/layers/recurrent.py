"""Recurrent layers over padded batches: padding never changes the outputs of a batch element.

A forward layer has read nothing after a position, so its states in a text do not depend on what follows
the text. A backward layer reads each text reversed by its own length. A GRU's last state is gathered from its outputs.
An LSTM's last cell is not among its outputs, so `run_lstm` with lengths freezes the cell at the end of each text. None
of this reads a length from a device: no step waits for it, and a training step can be captured as a CUDA graph.

Graves and Schmidhuber 2005, for the bidirectional LSTM. https://doi.org/10.1016/j.neunet.2005.06.042

Shapes: B batch, L length, N layers, H hidden units.
"""

from dataclasses import dataclass

import torch
import torch.nn.functional as F
from jaxtyping import Float, Int, Shaped
from torch import Tensor, nn
from torch.nn.utils.rnn import PackedSequence, pack_padded_sequence, pad_packed_sequence

from regard.contracts import has_own_call

FROZEN = 1e4
"""A pre-activation at which a sigmoid is exactly 0 or 1, and which half precision can represent."""
ALIGNED = 8
"""Input columns are added in multiples of this, as tensor cores require."""

LayerWeights = tuple[Tensor, Tensor, Tensor, Tensor]
"""W, U and the biases of both, in torch's order."""


def reverse_rows(rows: Shaped[Tensor, "B L *size"], lengths: Int[Tensor, " B"]) -> Shaped[Tensor, "B L *size"]:
    """Each text in reverse order; its padding stays where it is."""
    positions = torch.arange(rows.shape[1], device=rows.device)
    # (B, L); negative at padding, which keeps its own position
    mirrored = lengths[:, None] - 1 - positions
    index = torch.where(mirrored >= 0, mirrored, positions)
    # index as (B, L, 1, ..), expanded over the features without a copy
    return rows.gather(1, index.view(*index.shape, *(1 for _ in rows.shape[2:])).expand_as(rows))


def last_states(states: Float[Tensor, "B L H"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B H"]:
    """The state at the last position of each text."""
    index = (lengths - 1)[:, None, None].expand(-1, 1, states.shape[2])
    try:
        return states.gather(1, index).squeeze(1)
    # the lengths are read for the message alone: a read before would wait for a device at every call
    except RuntimeError:
        check_lengths(lengths, states.shape[1])
        raise


def check_lengths(lengths: Int[Tensor, " B"], num_positions: int) -> None:
    """Every text has a last position; reads the lengths on the host."""
    for length in lengths.tolist():
        if not 1 <= length <= num_positions:
            raise ValueError(
                f"lengths contain {length}, expected 1 to {num_positions}: a text without tokens has no last state. "
                f"Leave out empty texts, or end every text with <eos>."
            )


class BidirectionalGRU(nn.Module):
    """A GRU forwards and one backwards, side by side at every position: [forward; backward]."""

    def __init__(self, *, input_size: int, hidden_size: int) -> None:
        super().__init__()
        # two layers instead of bidirectional=True, whose backward layer would begin with the padding
        self.forwards = nn.GRU(input_size, hidden_size, batch_first=True)
        self.backwards = nn.GRU(input_size, hidden_size, batch_first=True)

    def forward(self, inputs: Float[Tensor, "B L input"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B L states"]:
        """States of twice the hidden size; those at padding are arbitrary."""
        forwards, _ = self.forwards(inputs)
        backwards, _ = self.backwards(reverse_rows(inputs, lengths))
        # reversed back, so that both states of a position have the same index
        return torch.cat([forwards, reverse_rows(backwards, lengths)], dim=-1)


class BidirectionalLSTM(nn.Module):
    """An LSTM forwards and one backwards, side by side at every position: [forward; backward]."""

    def __init__(self, *, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.backwards = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, inputs: Float[Tensor, "B L input"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B L states"]:
        """States of twice the hidden size, zeros at padding; a text may be empty."""
        forwards = self.forwards(inputs)[0]
        backwards = reverse_rows(self.backwards(reverse_rows(inputs, lengths))[0], lengths)
        is_padding = torch.arange(inputs.shape[1], device=inputs.device) >= lengths[:, None]
        return torch.cat([forwards, backwards], dim=-1).masked_fill(is_padding.unsqueeze(-1), 0.0)


class GRUUpdate(nn.Module):
    """One GRU step from the input's share of the three gates, which may be computed for all positions beforehand.

        r, z = sigmoid(gates_rz + U_rz s),   s~ = tanh(gates_s + U (r * s)),   s' = (1 - z) s + z s~

    Cho et al. 2014, section 2.3, with the reset gate inside the product and z for the new state, as in Bahdanau 2015.
    """

    def __init__(self, *, hidden_size: int) -> None:
        super().__init__()
        self.gates = nn.Linear(hidden_size, 2 * hidden_size, bias=False)
        self.candidate = nn.Linear(hidden_size, hidden_size, bias=False)

    def forward(self, gates: Float[Tensor, "B three_H"], state: Float[Tensor, "B H"]) -> Float[Tensor, "B H"]:
        """The next state; `gates` are ordered reset, update, candidate."""
        # reset and update share a product with s; the candidate's is with r * s, which must exist first
        gates, candidate = gates.split([2 * state.shape[1], state.shape[1]], dim=-1)
        reset, update = torch.sigmoid(gates + self.gates(state)).chunk(2, dim=-1)
        # (1 - z) s + z s~ with one product less
        return state + update * (torch.tanh(candidate + self.candidate(reset * state)) - state)


@dataclass(frozen=True, kw_only=True)
class LSTMState:
    """Hidden and cell of every layer, batch first."""

    hidden: Float[Tensor, "B N H"]
    cell: Float[Tensor, "B N H"]


@dataclass(frozen=True, kw_only=True)
class LSTMRun:
    """The top layer's hidden state at every position, and the state of all layers at the end."""

    outputs: Float[Tensor, "B L H"]
    state: LSTMState


def run_lstm(
    lstm: nn.LSTM,
    inputs: Float[Tensor, "B L input"],
    *,
    state: LSTMState | None = None,
    lengths: Int[Tensor, " B"] | None = None,
) -> LSTMRun:
    """A batch-first one-way LSTM; with lengths, the state is that at each end, and later outputs are 0."""
    if lengths is None:
        # one call for all layers; torch has the layers first, LSTMState the batch
        initial = None if state is None else (layers_first(state.hidden), layers_first(state.cell))
        outputs, (hidden, cell) = lstm(inputs, initial)
        return LSTMRun(outputs=outputs, state=LSTMState(hidden=hidden.transpose(0, 1), cell=cell.transpose(0, 1)))
    # the kernel below has biases
    if has_own_call(lstm, nn.LSTM) or not lstm.bias:
        return run_packed(lstm, inputs, state, lengths)
    is_real = torch.arange(inputs.shape[1], device=inputs.device) < lengths[:, None]
    outputs, ends = inputs, []
    for layer in range(lstm.num_layers):
        # one layer per call: each needs the column of `run_frozen` among its own inputs
        initial = None if state is None else (state.hidden[:, layer], state.cell[:, layer])
        if layer:
            # as nn.LSTM: between layers, not before the first
            outputs = F.dropout(outputs, lstm.dropout, lstm.training)
        outputs, cell = run_frozen(outputs, layer_weights(lstm, layer), initial, lengths)
        ends.append((last_states(outputs, lengths), cell))
    hidden, cells = (torch.stack(parts, dim=1) for parts in zip(*ends, strict=True))
    # zeroed here: at padding the kernel still gives o tanh(c) of the frozen cell
    return LSTMRun(outputs=outputs * is_real.unsqueeze(-1), state=LSTMState(hidden=hidden, cell=cells))


def run_packed(
    lstm: nn.LSTM, inputs: Float[Tensor, "B L input"], state: LSTMState | None, lengths: Int[Tensor, " B"]
) -> LSTMRun:
    """The same by a call of the layer, which its hooks or its own `forward` need; torch reads lengths on the host."""
    check_lengths(lengths, inputs.shape[1])
    packed = pack_padded_sequence(inputs, lengths.cpu(), batch_first=True, enforce_sorted=False)
    initial = None if state is None else (layers_first(state.hidden), layers_first(state.cell))
    outputs, (hidden, cell) = lstm(packed, initial)
    assert isinstance(outputs, PackedSequence)
    padded, _ = pad_packed_sequence(outputs, batch_first=True, total_length=inputs.shape[1])
    return LSTMRun(outputs=padded, state=LSTMState(hidden=hidden.transpose(0, 1), cell=cell.transpose(0, 1)))


def layers_first(part: Float[Tensor, "B N H"]) -> Float[Tensor, "N B H"]:
    """The layout of torch's recurrent layers."""
    return part.transpose(0, 1).contiguous()


def layer_weights(lstm: nn.LSTM, layer: int) -> LayerWeights:
    """W, U and both biases of one layer of a stack."""
    names = ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
    input_weight, state_weight, input_bias, state_bias = (getattr(lstm, f"{name}_l{layer}") for name in names)
    return input_weight, state_weight, input_bias, state_bias


def run_frozen(
    inputs: Float[Tensor, "B L input"],
    weights: LayerWeights,
    initial: tuple[Float[Tensor, "B H"], Float[Tensor, "B H"]] | None,
    lengths: Int[Tensor, " B"],
) -> tuple[Float[Tensor, "B L H"], Float[Tensor, "B H"]]:
    """One layer by torch's own kernel: its outputs, and the cell at the end of each text.

    One more input is 1 at padding. Its weights close the input gate and open the forget gate there, so that i = 0,
    f = 1 and c' = c exactly, and no gradient comes from padding. The last cell of the kernel is that of the text's end.
    """
    input_weight, state_weight, *biases = weights
    size = state_weight.shape[1]
    is_padding = torch.arange(inputs.shape[1], device=inputs.device) >= lengths[:, None]
    # zeros for g and o: g is multiplied by i = 0, and o changes only outputs at padding
    columns = input_weight.new_zeros(4 * size, ALIGNED)
    # torch's order of the gates is i, f, g, o
    columns[:size, 0], columns[size : 2 * size, 0] = -FROZEN, FROZEN
    padding_input = F.pad(is_padding.unsqueeze(-1).to(inputs.dtype), (0, ALIGNED - 1))
    parts = [torch.cat([input_weight, columns], dim=1), state_weight, *biases]
    # cuDNN requires the weights one after the other in one block of memory, and copies them otherwise
    block = torch.cat([part.flatten() for part in parts]).split([part.numel() for part in parts])
    views = [piece.view(part.shape) for piece, part in zip(block, parts, strict=True)]
    zeros = inputs.new_zeros(1, inputs.shape[0], size)
    state = (zeros, zeros) if initial is None else (initial[0][None].contiguous(), initial[1][None].contiguous())
    # train: cuDNN stores what its backward pass needs; with dropout 0 it changes nothing else
    # has_biases, num_layers, dropout, train, bidirectional, batch_first
    outputs, _, cell = torch.lstm(
        torch.cat([inputs, padding_input], dim=-1), state, views, True, 1, 0.0, torch.is_grad_enabled(), False, True
    )
    return outputs, cell[0]


class BidirectionalLSTMStack(nn.Module):
    """LSTM layers that read a text both ways, half of the units each; a layer reads both halves of the one below."""

    def __init__(self, input_size: int, hidden_size: int, num_layers: int, dropout: float = 0.0) -> None:
        super().__init__()
        if hidden_size % 2:
            raise ValueError(f"hidden_size is {hidden_size}, expected an even number: half of the units read each way.")
        sizes = [input_size] + [hidden_size] * (num_layers - 1)
        self.forwards, self.backwards = (
            nn.ModuleList(nn.LSTM(size, hidden_size // 2, batch_first=True) for size in sizes) for _ in range(2)
        )
        self.dropout = nn.Dropout(dropout)

    def forward(self, inputs: Float[Tensor, "B L input"], lengths: Int[Tensor, " B"]) -> LSTMRun:
        """States of both ways side by side, zeros at padding; the last state of each way is where it ends."""
        outputs, hidden, cells = inputs, [], []
        for number, (forwards, backwards) in enumerate(zip(self.forwards, self.backwards, strict=True)):
            outputs = self.dropout(outputs) if number else outputs
            first = run_lstm(forwards, outputs, lengths=lengths)
            second = run_lstm(backwards, reverse_rows(outputs, lengths), lengths=lengths)
            outputs = torch.cat([first.outputs, reverse_rows(second.outputs, lengths)], dim=-1)
            # each has one layer, (B, 1, H / 2)
            hidden.append(torch.cat([first.state.hidden, second.state.hidden], dim=-1))
            cells.append(torch.cat([first.state.cell, second.state.cell], dim=-1))
        return LSTMRun(outputs=outputs, state=LSTMState(hidden=torch.cat(hidden, dim=1), cell=torch.cat(cells, dim=1)))
