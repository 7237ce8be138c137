"""State of the optimizer and of the random generators as tensors and plain values.

An optimizer's state as flat tensors and plain facts, and back.

    state: parameter -> {exp_avg, exp_avg_sq, step}   ->   "parameter/exp_avg": tensor, ...
    param_groups: [{lr, betas, .., params}]           ->   JSON

A parameter is its number (torch's own state_dict) or its name (torch.distributed's).

Where every random generator stands (Python, numpy, torch on the CPU and on the GPU), as tensors of fixed shapes.
"""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def pack_optimizer(state: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Split what `state_dict()` gave: tensors for safetensors, the rest for JSON."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for parameter, values in state["state"].items():
        for key, value in values.items():
            (tensors if isinstance(value, Tensor) else numbers)[f"{parameter}/{key}"] = value
    groups = [
        {key: value.item() if isinstance(value, Tensor) else value for key, value in group.items()}
        for group in state["param_groups"]
    ]
    return tensors, {"numbers": numbers, "groups": groups}


def unpack_optimizer(tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> dict[str, Any]:
    """What `load_state_dict` takes."""
    state: dict[int | str, dict[str, Any]] = {}
    for place, value in {**facts["numbers"], **tensors}.items():
        parameter, key = place.rsplit("/", maxsplit=1)
        state.setdefault(int(parameter) if parameter.isdecimal() else parameter, {})[key] = value
    groups = [
        {key: tuple(value) if key == "betas" else value for key, value in group.items()} for group in facts["groups"]
    ]
    return {"state": state, "param_groups": groups}


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], facts: Mapping[str, Any]) -> None:
    """Put a packed state into an optimizer of the same parameters."""
    state = unpack_optimizer(tensors, facts)
    # which kernel runs is this machine's choice, not the file's
    for group, own in zip(state["param_groups"], optimizer.param_groups, strict=False):
        group.update({key: own[key] for key in ("fused", "foreach") if key in own})
    optimizer.load_state_dict(state)


def pack_random(device: torch.device) -> dict[str, Tensor]:
    """The state of all generators of this process; of the GPUs, that of its own device."""
    version, words, gauss = random.getstate()
    _, key, position, has_gauss, cached = np.random.get_state(legacy=True)
    tensors = {
        "python": torch.tensor([version, *words], dtype=torch.int64),
        "python_gauss": torch.tensor([gauss is not None, gauss or 0.0], dtype=torch.float64),
        "numpy": torch.tensor([position, has_gauss, *np.asarray(key).tolist()], dtype=torch.int64),
        "numpy_gauss": torch.tensor([cached], dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        tensors["cuda"] = torch.cuda.get_rng_state(device)
    return tensors


def unpack_random(tensors: Mapping[str, Tensor], device: torch.device) -> None:
    """Put all generators back where they stood; the GPU's only where there was one."""
    version, *words = tensors["python"].tolist()
    has_gauss, gauss = tensors["python_gauss"].tolist()
    random.setstate((version, tuple(words), gauss if has_gauss else None))
    position, cached, *key = tensors["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(key, dtype=np.uint32), position, cached, tensors["numpy_gauss"].item()))
    # torch reads a state from where its memory begins, so a row of several must be a copy
    torch.set_rng_state(tensors["torch"].cpu().clone())
    if device.type == "cuda" and "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"].cpu().clone(), device)
