"""Checkpoints and the folder of a run: safetensors and JSON, every file written atomically and with its SHA-256."""

from regard.checkpoint.checksums import load_signed_json, save_signed_json
from regard.checkpoint.folder import Checkpoint, Checkpoints, RunFolder
from regard.checkpoint.overwrite import check_is_run, has_old_run, overwrite_guard, remove_on_failure, repair
from regard.checkpoint.state import load_optimizer, pack_optimizer, pack_random, unpack_optimizer, unpack_random
from regard.checkpoint.tensors import (
    check_tensors,
    fit_weights,
    load_metadata,
    load_shapes,
    load_tensors,
    load_weights,
    save_tensors,
    save_weights,
)

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "RunFolder",
    "check_is_run",
    "check_tensors",
    "fit_weights",
    "has_old_run",
    "load_metadata",
    "load_optimizer",
    "load_shapes",
    "load_signed_json",
    "load_tensors",
    "load_weights",
    "overwrite_guard",
    "pack_optimizer",
    "pack_random",
    "remove_on_failure",
    "repair",
    "save_signed_json",
    "save_tensors",
    "save_weights",
    "unpack_optimizer",
    "unpack_random",
]
