"""Recurrent layers over padded sequences equal each sequence alone."""

import pytest
import torch
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence

from regard.layers import BidirectionalGRU, LSTMState, last_states, reverse_rows, run_lstm

LENGTHS = torch.tensor([4, 1, 3])


def test_sequences_are_reversed_by_their_own_length():
    rows = torch.tensor([[1, 2, 3, 4], [5, 0, 0, 0], [6, 7, 8, 0]])
    expected = [[4, 3, 2, 1], [5, 0, 0, 0], [8, 7, 6, 0]]
    assert reverse_rows(rows, LENGTHS).tolist() == expected
    vectors = rows[..., None].expand(-1, -1, 2).double()
    assert reverse_rows(vectors, LENGTHS)[..., 1].tolist() == expected


def test_the_last_state_is_that_of_the_last_token():
    states = torch.arange(12.0).view(3, 4, 1)
    assert last_states(states, LENGTHS).flatten().tolist() == [3.0, 4.0, 10.0]


def test_both_directions_equal_torch_for_each_sequence():
    layer, inputs = BidirectionalGRU(input_size=3, hidden_size=5), torch.randn(3, 4, 3)
    plain = nn.GRU(3, 5, batch_first=True, bidirectional=True)
    for name, parameter in layer.forwards.named_parameters():
        getattr(plain, name).data.copy_(parameter)
    for name, parameter in layer.backwards.named_parameters():
        getattr(plain, f"{name}_reverse").data.copy_(parameter)
    actual = layer(inputs, LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        assert actual[row, :length].allclose(plain(inputs[row : row + 1, :length])[0][0], atol=1e-6)


def test_an_lstm_stops_at_the_end_of_each_sequence():
    lstm, inputs = nn.LSTM(3, 5, 2, batch_first=True), torch.randn(3, 4, 3)
    start = LSTMState(hidden=torch.randn(3, 2, 5), cell=torch.randn(3, 2, 5))
    actual = run_lstm(lstm, inputs, state=start, lengths=LENGTHS)
    for row, length in enumerate(LENGTHS.tolist()):
        first = (start.hidden[row][:, None], start.cell[row][:, None])
        outputs, (hidden, cell) = lstm(inputs[row : row + 1, :length], first)
        assert actual.outputs[row, :length].allclose(outputs[0], atol=1e-6)
        assert (actual.outputs[row, length:] == 0).all()
        assert actual.state.hidden[row].allclose(hidden[:, 0], atol=1e-6)
        assert actual.state.cell[row].allclose(cell[:, 0], atol=1e-6)
    longest = run_lstm(lstm, inputs[:1], state=LSTMState(hidden=start.hidden[:1], cell=start.cell[:1]))
    assert longest.state.cell[0].allclose(actual.state.cell[0], atol=1e-6)


@pytest.mark.parametrize(("dtype", "tolerance"), [(torch.float32, 1e-6), (torch.float64, 1e-12)], ids=str)
def test_an_lstm_without_synchronization_equals_packed_sequences(dtype, tolerance):
    torch.manual_seed(0)
    lstm, inputs = nn.LSTM(3, 5, 2, batch_first=True).to(dtype), torch.randn(3, 4, 3, dtype=dtype)
    start = LSTMState(hidden=torch.randn(3, 2, 5, dtype=dtype), cell=torch.randn(3, 2, 5, dtype=dtype))
    learned = [inputs.requires_grad_(), start.hidden.requires_grad_(), start.cell.requires_grad_(), *lstm.parameters()]
    actual = run_lstm(lstm, inputs, state=start, lengths=LENGTHS)
    packed = pack_padded_sequence(inputs, LENGTHS, batch_first=True, enforce_sorted=False)
    outputs, (hidden, cell) = lstm(packed, tuple(part.transpose(0, 1) for part in (start.hidden, start.cell)))
    expected = (pad_packed_sequence(outputs, batch_first=True)[0], hidden.transpose(0, 1), cell.transpose(0, 1))
    pairs = []
    for ours, theirs in zip((actual.outputs, actual.state.hidden, actual.state.cell), expected, strict=True):
        assert ours.allclose(theirs, atol=tolerance, rtol=tolerance)
        weight = torch.randn_like(theirs)
        pairs.append(((ours * weight).sum(), (theirs * weight).sum()))
    grads = [torch.autograd.grad(sum(side), learned) for side in zip(*pairs, strict=True)]
    for ours, theirs in zip(*grads, strict=True):
        assert ours.allclose(theirs, atol=5 * tolerance, rtol=5 * tolerance)


@pytest.mark.parametrize(("lengths", "value"), [([2, 0, 3], 0), ([2, 5, 3], 5), ([-1, 1, 1], -1)])
def test_a_length_without_a_last_state_is_an_error(lengths, value):
    lstm, inputs = nn.LSTM(3, 5, batch_first=True), torch.randn(3, 4, 3)
    for run in (
        lambda: run_lstm(lstm, inputs, lengths=torch.tensor(lengths)),
        lambda: last_states(inputs, torch.tensor(lengths)),
    ):
        with pytest.raises(ValueError, match=rf"lengths contain {value}, expected 1 to 4: a text without tokens"):
            run()
