"""Named tensors in safetensors files, and the weights of a module.

Named tensors in one safetensors file.

https://github.com/huggingface/safetensors

Two names of one tensor (tied parameters) are written once; the file's metadata remembers the other name. Nothing is
ever pickled.

A module's weights as a file, and back into a module that they fit.
"""

import errno
import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import Tensor, nn

from regard._utils import replacing


def save_tensors(path: Path, tensors: Mapping[str, Tensor], *, facts: Mapping[str, Any] | None = None) -> None:
    """Write all tensors, and plain facts beside them, whole or not at all."""
    written, aliases = _without_aliases(tensors)
    # one key, for the order of several is left to chance, and equal content shall be equal bytes
    metadata = {"regard": json.dumps({"aliases": aliases, "facts": dict(facts or {})})}
    with replacing(path) as beside:
        try:
            save_file(written, beside, metadata=metadata)
        except SafetensorError as error:
            full = f"os error {errno.ENOSPC}" in str(error)
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from None


def load_tensors(path: Path, device: str | torch.device = "cpu") -> dict[str, Tensor]:
    """Read all tensors; names that were one tensor are one tensor again."""
    with _open(path, device) as file:
        aliases = _notes(file).get("aliases", {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, written in aliases.items():
        tensors[name] = tensors[written]
    return tensors


def load_facts(path: Path) -> dict[str, Any]:
    """Read only the plain facts that were written beside the tensors."""
    with _open(path, "cpu") as file:
        facts: dict[str, Any] = _notes(file).get("facts", {})
    return facts


def _notes(file: Any) -> dict[str, Any]:
    notes: dict[str, Any] = json.loads((file.metadata() or {}).get("regard", "{}"))
    return notes


def _open(path: Path, device: str | torch.device) -> Any:
    if not path.is_file():
        where = f"{path.parent} has no such file" if path.parent.is_dir() else "the folder does not exist"
        raise FileNotFoundError(f"{path} is missing: {where}. Check the name, or train first.")
    try:
        return safe_open(path, framework="pt", device=str(device))
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a whole safetensors file ({error}). It was cut off or is something else; copy it again."
        ) from None


def _without_aliases(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, alone in its memory, and the other names of those that have two."""
    written: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    seen: dict[tuple[Any, ...], str] = {}
    used: set[tuple[Any, ...]] = set()
    for name, given in tensors.items():
        tensor = given.detach()
        memory = (tensor.device, tensor.untyped_storage().data_ptr())
        place = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        if tensor.numel() and place in seen:
            aliases[name] = seen[place]
            continue
        seen[place] = name
        # a view of another's memory is written as a tensor of its own
        written[name] = tensor.clone().contiguous() if memory in used else tensor.contiguous()
        used.add(memory)
    return written, aliases


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
