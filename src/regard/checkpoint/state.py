"""State of the optimizer and of the random generators as flat tensors and JSON values, without pickle.

    state: parameter -> {exp_avg, exp_avg_sq, step}   ->   "parameter/exp_avg": tensor, ...
    param_groups: [{lr, betas, .., params}]           ->   JSON

A parameter is identified by its number (in torch's own state_dict) or by its name (in that of torch.distributed). The
states of the random generators (Python, numpy, torch on the CPU and on the GPU) are tensors of fixed shapes, so that
several processes can be stacked.
"""

import random
from collections.abc import Mapping
from typing import Any

import numpy as np
import torch
from torch import Tensor


def pack_optimizer(state: Mapping[str, Any]) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """Split a `state_dict()` into tensors for safetensors and the rest for JSON."""
    tensors: dict[str, Tensor] = {}
    numbers: dict[str, Any] = {}
    for parameter, values in state["state"].items():
        for key, value in values.items():
            # some optimizers keep step counts as tensors, others as numbers
            (tensors if isinstance(value, Tensor) else numbers)[f"{parameter}/{key}"] = value
    groups = [
        # a capturable optimizer has tensors among its settings, such as the rate
        {key: value.item() if isinstance(value, Tensor) else value for key, value in group.items()}
        for group in state["param_groups"]
    ]
    return tensors, {"numbers": numbers, "groups": groups}


def unpack_optimizer(tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> dict[str, Any]:
    """The inverse of `pack_optimizer`: an argument for `load_state_dict`."""
    state: dict[int | str, dict[str, Any]] = {}
    for path, value in {**plain["numbers"], **tensors}.items():
        # from the right: a parameter's name may contain the separator, a key of the state does not
        parameter, key = path.rsplit("/", maxsplit=1)
        state.setdefault(int(parameter) if parameter.isdecimal() else parameter, {})[key] = value
    groups = [
        # JSON has no tuples, and torch compares betas with one
        {key: tuple(value) if key == "betas" else value for key, value in group.items()}
        for group in plain["groups"]
    ]
    return {"state": state, "param_groups": groups}


def load_optimizer(optimizer: torch.optim.Optimizer, tensors: Mapping[str, Tensor], plain: Mapping[str, Any]) -> None:
    """Load a packed state into an optimizer of the same parameters."""
    state = unpack_optimizer(tensors, plain)
    check_optimizer(optimizer, state["state"])
    # fused and foreach depend on this machine, not on the one that saved
    for group, own in zip(state["param_groups"], optimizer.param_groups, strict=False):
        group.update({key: own[key] for key in ("fused", "foreach") if key in own})
    optimizer.load_state_dict(state)


def check_optimizer(optimizer: torch.optim.Optimizer, state: Mapping[int | str, Mapping[str, Any]]) -> None:
    """Raise ValueError if a state has other parameters, shapes or names than the optimizer; torch accepts any."""
    parameters = [parameter for group in optimizer.param_groups for parameter in group["params"]]
    names = next(iter(state.values()), {}).keys()
    for index, values in state.items():
        if not isinstance(index, int) or index >= len(parameters):
            raise ValueError(f"there is no parameter {index!r} of {len(parameters)}")
        if values.keys() != names:
            raise ValueError(f"parameter {index} has {', '.join(values)}, and others have {', '.join(names)}")
        for name, value in values.items():
            # counts of steps are scalars
            if isinstance(value, Tensor) and value.ndim and value.shape != parameters[index].shape:
                raise ValueError(f"{name} of parameter {index} has the shape {tuple(value.shape)}")


def pack_random(device: torch.device) -> dict[str, Tensor]:
    """The states of the random generators of this process; of the GPUs, its own device only."""
    version, words, gauss = random.getstate()
    _, key, position, has_gauss, cached = np.random.get_state(legacy=True)
    tensors = {
        # the 624 words and the position are below 2^32, which int64 holds exactly
        "python": torch.tensor([version, *words], dtype=torch.int64),
        # float64 keeps the cached normal number exactly; the first entry says whether there is one
        "python_gauss": torch.tensor([gauss is not None, gauss or 0.0], dtype=torch.float64),
        "numpy": torch.tensor([position, has_gauss, *np.asarray(key).tolist()], dtype=torch.int64),
        "numpy_gauss": torch.tensor([cached], dtype=torch.float64),
        "torch": torch.get_rng_state(),
    }
    if device.type == "cuda":
        tensors["cuda"] = torch.cuda.get_rng_state(device)
    return tensors


def unpack_random(tensors: Mapping[str, Tensor], device: torch.device) -> None:
    """Restore the random generators; that of the GPU only if the state has one."""
    version, *words = tensors["python"].tolist()
    has_gauss, gauss = tensors["python_gauss"].tolist()
    random.setstate((version, tuple(words), gauss if has_gauss else None))
    position, cached, *key = tensors["numpy"].tolist()
    np.random.set_state(("MT19937", np.array(key, dtype=np.uint32), position, cached, tensors["numpy_gauss"].item()))
    # torch reads from the start of the storage, so a row of a stacked tensor must be copied
    torch.set_rng_state(tensors["torch"].cpu().clone())
    # a state that was saved on a CPU has none
    if device.type == "cuda" and "cuda" in tensors:
        torch.cuda.set_rng_state(tensors["cuda"].cpu().clone(), device)
