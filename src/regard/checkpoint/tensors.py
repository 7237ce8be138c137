"""Named tensors in safetensors files, and the weights of a module. https://github.com/huggingface/safetensors.

A tensor with two names (tied parameters) is written once; the metadata of the file has the other name. Nothing is
pickled.
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

from regard._utils import atomic_file


def save_tensors(path: Path, tensors: Mapping[str, Tensor], *, metadata: Mapping[str, Any] | None = None) -> None:
    """Write tensors and JSON metadata atomically."""
    unique, aliases = _without_aliases(tensors)
    # a single key: the order of several keys is random, and equal content must give equal bytes
    header = {"regard": json.dumps({"aliases": aliases, "facts": dict(metadata or {})})}
    with atomic_file(path) as scratch_path:
        try:
            save_file(unique, scratch_path, metadata=header)
        except SafetensorError as error:
            # safetensors has no error type for a full disk
            full = f"os error {errno.ENOSPC}" in str(error)
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from None


def load_tensors(path: Path, device: str | torch.device = "cpu") -> dict[str, Tensor]:
    """Read all tensors; tied names share one tensor again."""
    with _open(path, device) as file:
        aliases = _header(file).get("aliases", {})
        tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    for name, original in aliases.items():
        tensors[name] = tensors[original]
    return tensors


def load_metadata(path: Path) -> dict[str, Any]:
    """Read only the metadata that was written with the tensors."""
    with _open(path, "cpu") as file:
        metadata: dict[str, Any] = _header(file).get("facts", {})
    return metadata


def _header(file: Any) -> dict[str, Any]:
    # a file of another program has no such key
    header: dict[str, Any] = json.loads((file.metadata() or {}).get("regard", "{}"))
    return header


def _open(path: Path, device: str | torch.device) -> Any:
    if not path.is_file():
        where = f"{path.parent} has no such file" if path.parent.is_dir() else "the folder does not exist"
        raise FileNotFoundError(f"{path} is missing: {where}. Check the name, or train first.")
    try:
        return safe_open(path, framework="pt", device=str(device))
    except SafetensorError as error:
        raise ValueError(
            f"{path} is not a complete safetensors file ({error}). It is truncated or of another kind. Copy it again."
        ) from None


def _without_aliases(tensors: Mapping[str, Tensor]) -> tuple[dict[str, Tensor], dict[str, str]]:
    """Each tensor once, in memory of its own, and the further names of tied tensors."""
    unique: dict[str, Tensor] = {}
    aliases: dict[str, str] = {}
    first_names: dict[tuple[Any, ...], str] = {}
    storages: set[tuple[Any, ...]] = set()
    for name, value in tensors.items():
        tensor = value.detach()
        storage = (tensor.device, tensor.untyped_storage().data_ptr())
        view = (tensor.device, tensor.data_ptr(), tensor.dtype, tensor.shape, tensor.stride())
        # all empty tensors have the address 0 and are not tied by it
        if tensor.numel() and view in first_names:
            aliases[name] = first_names[view]
            continue
        first_names[view] = name
        # safetensors rejects shared memory, so another view of the same storage is copied
        unique[name] = tensor.clone().contiguous() if storage in storages else tensor.contiguous()
        storages.add(storage)
    return unique, aliases


SHOWN = 3
"""Names that an error lists before it counts the rest."""


def save_weights(path: Path, model: nn.Module, *, metadata: Mapping[str, Any] | None = None) -> None:
    """Write every parameter and buffer, tied ones once."""
    save_tensors(path, model.state_dict(), metadata=metadata)


def load_weights(path: Path, model: nn.Module) -> None:
    """Load weights into the model in place, in its own precision; an error names what does not fit."""
    fit_weights(model, load_tensors(path), origin=str(path))


def fit_weights(model: nn.Module, tensors: Mapping[str, Tensor], *, origin: str) -> None:
    """Copy tensors into the model; names and shapes must be exactly those of the model."""
    own = model.state_dict()
    # another writer may have saved only one of two tied names
    # tied names share memory: a weight is covered if any of its names was saved
    covered = {_memory(own[name]) for name in tensors if name in own}
    missing = [name for name in own if name not in tensors and _memory(own[name]) not in covered]
    unexpected = [name for name in tensors if name not in own]
    reshaped = [
        f"{name} {tuple(tensors[name].shape)} instead of {tuple(own[name].shape)}"
        for name in tensors
        if name in own and tensors[name].shape != own[name].shape
    ]
    problems = [
        f"{problem}: {_first(names)}"
        for problem, names in (("missing", missing), ("not in the model", unexpected), ("of another shape", reshaped))
        if names
    ]
    if problems:
        raise ValueError(f"{origin} does not fit the model. " + "; ".join(problems) + ". Load it with its own config.")
    # only after every check: a failed load leaves the model as it was
    with torch.no_grad():
        for name, tensor in tensors.items():
            # state_dict returns the parameters' own memory, and copy_ converts the dtype and the device
            own[name].copy_(tensor)


def _memory(tensor: Tensor) -> tuple[Any, ...]:
    # empty tensors have no address to compare
    return (tensor.data_ptr(), tuple(tensor.shape)) if tensor.numel() else (id(tensor),)


def _first(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
