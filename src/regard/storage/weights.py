"""A module's weights as a file, and back into a module that they fit."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from torch import Tensor, nn

from regard.storage.tensors import load_tensors, save_tensors

SHOWN = 3
"""How many names an error lists before it counts the rest."""


def save_weights(path: Path, model: nn.Module, *, facts: Mapping[str, Any] | None = None) -> None:
    """Write every parameter and buffer, tied ones once."""
    save_tensors(path, model.state_dict(), facts=facts)


def load_weights(path: Path, model: nn.Module) -> None:
    """Read weights into the model, in place and in its own precision, or name what does not fit."""
    fit_weights(model, load_tensors(path), origin=str(path))


def fit_weights(model: nn.Module, tensors: Mapping[str, Tensor], *, origin: str) -> None:
    """Copy tensors into the model; all must fit, and none may be left over."""
    own = model.state_dict()
    known = {_place(own[name]): name for name in tensors if name in own}
    missing = [name for name in own if name not in tensors and _place(own[name]) not in known]
    foreign = [name for name in tensors if name not in own]
    reshaped = [
        f"{name} {tuple(tensors[name].shape)} instead of {tuple(own[name].shape)}"
        for name in tensors
        if name in own and tensors[name].shape != own[name].shape
    ]
    faults = [
        f"{kind}: {_some(names)}"
        for kind, names in (("missing", missing), ("not in the model", foreign), ("of another shape", reshaped))
        if names
    ]
    if faults:
        raise ValueError(f"{origin} does not fit the model. " + "; ".join(faults) + ". Load it with its own config.")
    with torch.no_grad():
        for name, tensor in tensors.items():
            own[name].copy_(tensor)


def _place(tensor: Tensor) -> tuple[Any, ...]:
    return (tensor.data_ptr(), tuple(tensor.shape)) if tensor.numel() else (id(tensor),)


def _some(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
