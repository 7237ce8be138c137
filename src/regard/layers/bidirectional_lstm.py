"""Bidirectional LSTM over padded rows: padding never changes what a row gives.

Graves and Schmidhuber 2005. https://doi.org/10.1016/j.neunet.2005.06.042
As recurrent.py has it for a GRU: the backward layer reads each row reversed by its own length, and no length is waited
for.

Shapes: B batch, L length, H hidden units.
"""

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn

from regard.layers.recurrent import may_step, reverse_rows, step_lstm


class BidirectionalLSTM(nn.Module):
    """One LSTM reads each row forwards, another backwards; a place gets both states, [forward; backward]."""

    def __init__(self, *, input_size: int, hidden_size: int) -> None:
        super().__init__()
        self.forwards = nn.LSTM(input_size, hidden_size, batch_first=True)
        self.backwards = nn.LSTM(input_size, hidden_size, batch_first=True)

    def forward(self, inputs: Float[Tensor, "B L input"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B L states"]:
        """States of twice the hidden size, zeros past a row's end; there may be rows without a place."""
        forwards = run_rows(self.forwards, inputs, lengths)
        backwards = reverse_rows(run_rows(self.backwards, reverse_rows(inputs, lengths), lengths), lengths)
        ended = torch.arange(inputs.shape[1], device=inputs.device) >= lengths[:, None]
        return torch.cat([forwards, backwards], dim=-1).masked_fill(ended.unsqueeze(-1), 0.0)


def run_rows(lstm: nn.LSTM, inputs: Float[Tensor, "B L input"], lengths: Int[Tensor, " B"]) -> Float[Tensor, "B L H"]:
    """Hidden states at every real place, from the row's first on; past its end they mean nothing."""
    if may_step(lstm, lengths):
        return step_lstm(lstm, inputs, None, lengths.clamp(min=1)).outputs
    states: Tensor = lstm(inputs)[0]
    return states
