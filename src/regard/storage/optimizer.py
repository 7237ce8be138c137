"""An optimizer's state as flat tensors and plain facts, and back.

    state: parameter -> {exp_avg, exp_avg_sq, step}   ->   "parameter/exp_avg": tensor, ...
    param_groups: [{lr, betas, .., params}]           ->   JSON

A parameter is its number (torch's own state_dict) or its name (torch.distributed's).
"""

from collections.abc import Mapping
from typing import Any

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
