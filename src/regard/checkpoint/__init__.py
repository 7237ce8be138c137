"""Checkpoints and the folder of a run: safetensors and JSON, every file written atomically."""

from regard.checkpoint.folder import Checkpoint, Checkpoints, RunFolder
from regard.checkpoint.overwrite import check_is_run, check_no_old_run, overwrite_guard, remove_on_failure
from regard.checkpoint.state import load_optimizer, pack_optimizer, pack_random, unpack_optimizer, unpack_random
from regard.checkpoint.tensors import fit_weights, load_metadata, load_tensors, load_weights, save_tensors, save_weights

__all__ = [
    "Checkpoint",
    "Checkpoints",
    "RunFolder",
    "check_is_run",
    "check_no_old_run",
    "fit_weights",
    "load_metadata",
    "load_optimizer",
    "load_tensors",
    "load_weights",
    "overwrite_guard",
    "pack_optimizer",
    "pack_random",
    "remove_on_failure",
    "save_tensors",
    "save_weights",
    "unpack_optimizer",
    "unpack_random",
]
