"""Whether a number may be looked at to decide what to do next."""

import torch
from torch import Tensor


def is_mapped(tensor: Tensor) -> bool:
    """Whether torch.func maps or differentiates over it."""
    return not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def can_look(tensor: Tensor) -> bool:
    """On the CPU, where it costs no synchronisation, and not in a graph, a fake or a mapped tensor, which has none."""
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    if type(tensor) not in (Tensor, torch.nn.Parameter):
        return False
    return not is_mapped(tensor)
