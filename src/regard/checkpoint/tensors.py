"""Named tensors in safetensors files, and the weights of a module. https://github.com/huggingface/safetensors.

A tensor with two names (tied parameters) is written once; the metadata of the file has the other name. Its header also
has a SHA-256 of the file, which is compared on loading. Nothing is pickled.
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
from regard.checkpoint.checksums import KEY, PLACEHOLDER, is_enabled, sign_tensor_file, verify_tensor_file

METADATA_KEYS = {KEY, "aliases", "facts"}
"""What `save_tensors` writes into the metadata of a file."""


def save_tensors(path: Path, tensors: Mapping[str, Tensor], *, metadata: Mapping[str, Any] | None = None) -> None:
    """Write tensors and JSON metadata atomically."""
    unique, aliases = _without_aliases(tensors)
    # a single key: the order of several keys is random, and equal content must give equal bytes
    header = {"regard": json.dumps({KEY: PLACEHOLDER, "aliases": aliases, "facts": dict(metadata or {})})}
    with atomic_file(path) as scratch_path:
        try:
            save_file(unique, scratch_path, metadata=header)
            # before the rename, so that the file and its checksum appear together
            sign_tensor_file(scratch_path)
        except SafetensorError as error:
            # safetensors has no error type for a full disk
            full = f"os error {errno.ENOSPC}" in str(error)
            raise OSError(errno.ENOSPC if full else errno.EIO, str(error)) from None


def load_tensors(path: Path, device: str | torch.device = "cpu", *, verify: bool = True) -> dict[str, Tensor]:
    """Read all tensors; tied names share one tensor again.

    A file that differs from its SHA-256 raises ValueError, unless `verify` is False or REGARD_VERIFY is 0.
    """
    try:
        with _open(path, device) as file:
            header = _header(file, path)
            aliases = header["aliases"]
            if KEY in header and is_enabled(verify):
                verify_tensor_file(path)
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
    except SafetensorError as error:
        raise ValueError(_incomplete(path, error)) from None
    for name, original in aliases.items():
        if original not in tensors:
            raise ValueError(f"{path} names {name} as {original}, which it does not hold. Restore it from a copy.")
        tensors[name] = tensors[original]
    return tensors


def check_tensors(path: Path) -> None:
    """Raise an error if a tensor file is missing, incomplete or damaged."""
    with _open(path, "cpu") as file:
        header = _header(file, path)
    if KEY in header and is_enabled():
        verify_tensor_file(path)


def load_metadata(path: Path) -> dict[str, Any]:
    """Read only the metadata that was written with the tensors."""
    with _open(path, "cpu") as file:
        metadata: dict[str, Any] = _header(file, path)["facts"]
    return metadata


def load_shapes(path: Path) -> dict[str, tuple[int, ...]]:
    """The shapes of all tensors, from the header alone; tied names have one shape each."""
    with _open(path, "cpu") as file:
        shapes = {name: tuple(file.get_slice(name).get_shape()) for name in file.keys()}  # noqa: SIM118
        aliases = _header(file, path)["aliases"]
    return shapes | {name: shapes[original] for name, original in aliases.items() if original in shapes}


def _header(file: Any, path: Path) -> dict[str, Any]:
    """What `save_tensors` wrote into the metadata, of the types that it writes."""
    # a file of another program has no such key
    text = (file.metadata() or {}).get("regard", "{}")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ValueError(f"the metadata of {path} are not JSON ({error}). Restore it from a copy.") from None
    if not isinstance(header, dict) or not set(header) <= METADATA_KEYS:
        raise ValueError(f"the metadata of {path} are not what regard writes: {text[:60]!r}. Restore it from a copy.")
    aliases, facts = header.get("aliases", {}), header.get("facts", {})
    if not isinstance(aliases, dict) or not all(isinstance(name, str) for name in aliases.values()):
        raise ValueError(f"the aliases of {path} are no names of tensors: {str(aliases)[:60]}. Restore it from a copy.")
    if not isinstance(facts, dict):
        raise ValueError(f"the facts of {path} are a {type(facts).__name__}, expected an object. Restore it.")
    return {**header, "aliases": aliases, "facts": facts}


def _open(path: Path, device: str | torch.device) -> Any:
    if not path.is_file():
        where = f"{path.parent} has no such file" if path.parent.is_dir() else "the folder does not exist"
        raise FileNotFoundError(f"{path} is missing: {where}. Check the name, or train first.")
    try:
        return safe_open(path, framework="pt", device=str(device))
    except SafetensorError as error:
        raise ValueError(_incomplete(path, error)) from None


def _incomplete(path: Path, error: SafetensorError) -> str:
    return f"{path} is not a complete safetensors file ({error}). It is truncated or of another kind. Copy it again."


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


def load_weights(path: Path, model: nn.Module, *, verify: bool = True) -> None:
    """Load weights into the model in place, in its own precision; an error names what does not fit."""
    fit_weights(model, load_tensors(path, verify=verify), origin=str(path))


def fit_weights(model: nn.Module, tensors: Mapping[str, Tensor], *, origin: str) -> None:
    """Copy tensors into the model; names and shapes must be exactly those of the model.

    Any floating dtype is converted to that of the model. An integer buffer needs exactly its own dtype.
    """
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
    mistyped = [
        f"{name} {_dtype(tensors[name])} instead of {_dtype(own[name])}"
        for name in tensors
        if name in own and not _is_convertible(tensors[name], own[name])
    ]
    checks = (
        ("missing", missing),
        ("not in the model", unexpected),
        ("of another shape", reshaped),
        ("of another dtype", mistyped),
    )
    problems = [f"{problem}: {_first(names)}" for problem, names in checks if names]
    if problems:
        raise ValueError(f"{origin} does not fit the model. " + "; ".join(problems) + ". Load it with its own config.")
    # only after every check: a failed load leaves the model as it was
    with torch.no_grad():
        for name, tensor in tensors.items():
            # state_dict returns the parameters' own memory, and copy_ converts the dtype and the device
            own[name].copy_(tensor)


def _is_convertible(tensor: Tensor, own: Tensor) -> bool:
    # integers copied into floating weights would be other weights, and fractions copied into indices other indices
    return (tensor.is_floating_point() and own.is_floating_point()) or tensor.dtype == own.dtype


def _dtype(tensor: Tensor) -> str:
    return str(tensor.dtype).removeprefix("torch.")


def _memory(tensor: Tensor) -> tuple[Any, ...]:
    # empty tensors have no address to compare
    return (tensor.data_ptr(), tuple(tensor.shape)) if tensor.numel() else (id(tensor),)


def _first(names: list[str]) -> str:
    more = f" and {len(names) - SHOWN} more" if len(names) > SHOWN else ""
    return ", ".join(names[:SHOWN]) + more
