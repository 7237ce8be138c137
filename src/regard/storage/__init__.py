"""A checkpoint folder: safetensors and JSON, every file whole or not at all. It knows no model class."""

from regard.storage.checkpoint import Checkpoint
from regard.storage.documents import append_line, cut_lines, load_json, read_lines, read_text, save_json
from regard.storage.files import creating_folder, tidy, write_text
from regard.storage.holding import holding, is_unused
from regard.storage.optimizer import load_optimizer, pack_optimizer, unpack_optimizer
from regard.storage.points import Point, Points
from regard.storage.randomness import pack_random, unpack_random
from regard.storage.tensors import load_facts, load_tensors, save_tensors
from regard.storage.weights import fit_weights, load_weights, save_weights

__all__ = [
    "Checkpoint",
    "Point",
    "Points",
    "append_line",
    "creating_folder",
    "cut_lines",
    "fit_weights",
    "holding",
    "is_unused",
    "load_facts",
    "load_json",
    "load_optimizer",
    "load_tensors",
    "load_weights",
    "pack_optimizer",
    "pack_random",
    "read_lines",
    "read_text",
    "save_json",
    "save_tensors",
    "save_weights",
    "tidy",
    "unpack_optimizer",
    "unpack_random",
    "write_text",
]
