"""Parts of fused loops over the steps of a recurrent decoder: what each step computes, and what waits for the last.

A loop written in plain torch launches a dozen small kernels a step, forward and backward. These functions and classes
join elementwise work, and leave sums over steps (gradients of weights, keys and values) to one product after the loop.
"""

from regard.kernels.recurrent.deferred_linear import DeferredLinear
from regard.kernels.recurrent.gates import LSTMN_ORDER, TORCH_ORDER, gru_blend, gru_reset, lstm_update
from regard.kernels.recurrent.lstmn_memory import MemoryBuffer, WindowedMemoryBuffer
from regard.kernels.recurrent.stepwise_attention import StepwiseAdditiveAttention, StepwiseDotAttention

__all__ = [
    "LSTMN_ORDER",
    "TORCH_ORDER",
    "DeferredLinear",
    "MemoryBuffer",
    "StepwiseAdditiveAttention",
    "StepwiseDotAttention",
    "WindowedMemoryBuffer",
    "gru_blend",
    "gru_reset",
    "lstm_update",
]
