"""What a loop over steps does at every one of them, and what it can leave until all are done."""

from regard.kernels.recurrent.additive_look import AdditiveLook
from regard.kernels.recurrent.gru import gru_blend, gru_reset, gru_update
from regard.kernels.recurrent.look import DotLook
from regard.kernels.recurrent.lstm import TAPE_ORDER, TORCH_ORDER, lstm_update
from regard.kernels.recurrent.repeated import RepeatedLinear
from regard.kernels.recurrent.tape import WrittenTape
from regard.kernels.recurrent.window import WindowTape

__all__ = [
    "TAPE_ORDER",
    "TORCH_ORDER",
    "AdditiveLook",
    "DotLook",
    "RepeatedLinear",
    "WindowTape",
    "WrittenTape",
    "gru_blend",
    "gru_reset",
    "gru_update",
    "lstm_update",
]
