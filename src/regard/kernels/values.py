"""What may be done with a tensor: look at its numbers, differentiate by hand, multiply in which precision."""

import torch
from torch import Tensor


def is_mapped(tensor: Tensor) -> bool:
    """Whether torch.func maps or differentiates over it."""
    return not torch.compiler.is_compiling() and torch._C._functorch.is_functorch_wrapped_tensor(tensor)


def is_plain_here() -> bool:
    """Whether a function with a backward of its own has no place: in a compiler's graph or under torch.func."""
    return torch.compiler.is_compiling() or torch._C._are_functorch_transforms_active()


def product_dtype(tensor: Tensor) -> torch.dtype:
    """The precision in which autocast multiplies it; as torch's own does, it leaves float64 alone."""
    device = tensor.device.type
    if tensor.dtype == torch.float64 or not torch.is_autocast_enabled(device):
        return tensor.dtype
    return torch.get_autocast_dtype(device)


def can_look(tensor: Tensor) -> bool:
    """On the CPU, where it costs no synchronisation, and not in a graph, a fake or a mapped tensor, which has none."""
    if tensor.device.type != "cpu" or torch.compiler.is_compiling():
        return False
    if type(tensor) not in (Tensor, torch.nn.Parameter):
        return False
    return not is_mapped(tensor)
