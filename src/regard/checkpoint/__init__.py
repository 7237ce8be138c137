"""A run's folder: safetensors and JSON, every file written atomically."""

from regard.checkpoint.folder import Checkpoint, Point, Points
from regard.checkpoint.overwrite import beginning, check_aside, check_is_run, set_aside
from regard.checkpoint.state import load_optimizer, pack_optimizer, pack_random, unpack_optimizer, unpack_random
from regard.checkpoint.tensors import fit_weights, load_facts, load_tensors, load_weights, save_tensors, save_weights

__all__ = [
    "Checkpoint",
    "Point",
    "Points",
    "beginning",
    "check_aside",
    "check_is_run",
    "fit_weights",
    "load_facts",
    "load_optimizer",
    "load_tensors",
    "load_weights",
    "pack_optimizer",
    "pack_random",
    "save_tensors",
    "save_weights",
    "set_aside",
    "unpack_optimizer",
    "unpack_random",
]
