"""Building the model of a run, and refusing impossible sizes before any memory is allocated.

The header of model.safetensors has the shape of every tensor. A config that asks for more is refused in two steps: each
size is compared with the header, then the model is built on the meta device, which has shapes and no memory.
"""

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite, prod
from typing import Any

import torch
from torch import nn

from regard.checkpoint import RunFolder, load_shapes
from regard.contracts import ModelEntry
from regard.tasks.table import task_of

MAX_COUNT = 10**7
"""Upper bound for any size in a model config; larger values are treated as typos."""
MARGIN = 64
"""Parameters that a model may create and replace while it is built, beyond twice those of the file."""

Shapes = Mapping[str, tuple[int, ...]]


class TooManyParametersError(Exception):
    """A model creates many more parameters than its file has."""


def entry_of(run: Any) -> ModelEntry:
    """The table entry of a run's model."""
    return task_of(run).models[run.model_name]


def build(run: Any) -> Any:
    """The model of a run with weights drawn from torch's generator; impossible sizes are a ValueError."""
    # before anything is allocated: a typo of a few zeros exhausts the memory
    for name, value in sizes_of(run).items():
        if not 1 <= value <= MAX_COUNT:
            raise ValueError(f"{name} is {value}, expected 1 to {MAX_COUNT:,}.")
    # torch accepts NaN as a rate of dropout, and refuses it at the first call
    for name, value in vars(run.model).items():
        if isinstance(value, float) and not isfinite(value):
            raise ValueError(f"model.{name} is {value}, expected a finite number.")
    try:
        return entry_of(run).build(run.model)
    except (ArithmeticError, AssertionError, MemoryError, RuntimeError, TypeError) as error:
        # torch's own errors for a layer of size -16, or for one that exceeds memory, do not name the setting
        raise ValueError(f"{run.model_name} cannot be built from {run.model}: {error}. Check the sizes.") from error


def sizes_of(run: Any) -> dict[str, int]:
    """Every size and count of the model, by the path of its setting."""
    return {
        f"model.{name}": value
        for name, value in vars(run.model).items()
        if (name.startswith("num_") or name.endswith("_size")) and isinstance(value, int)
    }


def build_for(run: Any, run_folder: RunFolder) -> Any:
    """The model of a run whose sizes are those of the weights in its folder; errors name config.json."""
    shapes = load_shapes(run_folder.weights)
    try:
        check_sizes(run, shapes)
        check_shapes(run, shapes)
        return build(run)
    except ValueError as error:
        raise ValueError(
            f"{run_folder.config}: {run_folder.weights.name} does not fit the model: {error} Restore the config of "
            f"these weights."
        ) from None


def check_sizes(run: Any, shapes: Shapes) -> None:
    """Raise ValueError for a size beyond what the tensors of these shapes can have; costs no memory."""
    num_values = sum(prod(shape) for shape in shapes.values())
    for name, value in sizes_of(run).items():
        # every layer has a tensor of its own, and every size is that of a vector at least
        limit, unit = (len(shapes), "tensors") if name.endswith("layers") else (num_values, "values")
        if value > limit:
            raise ValueError(f"{name} is {value:,}, and all weights together have {limit:,} {unit}.")


def check_shapes(run: Any, shapes: Shapes) -> None:
    """Raise ValueError if a model on the meta device has tensors of other names or shapes."""
    try:
        with torch.device("meta"), limited_parameters(2 * len(shapes) + MARGIN):
            model = entry_of(run).build(run.model)
    except TooManyParametersError:
        raise ValueError(
            f"{describe(sizes_of(run))} need many more tensors than the {len(shapes)} of the weights."
        ) from None
    except (ArithmeticError, AssertionError, NotImplementedError, RuntimeError, TypeError):
        # a model of another package may not support the meta device; `build` raises an error of the sizes
        return
    own = model.state_dict(keep_vars=True)
    # tied names are one parameter, and a file of another program may have only one of them
    covered = {id(own[name]) for name in shapes if name in own}
    missing = {name: tuple(tensor.shape) for name, tensor in own.items() if id(tensor) not in covered}
    reshaped = {name: tuple(own[name].shape) for name in shapes if name in own and own[name].shape != shapes[name]}
    if wrong := {**missing, **reshaped}:
        name, shape = next(iter({**reshaped, **missing}.items()))
        # the settings that occur in a wrong shape, else all of them
        sizes = sizes_of(run)
        suspects = {path: value for path, value in sizes.items() if any(value in other for other in wrong.values())}
        in_file = f"{shapes[name]} in the weights" if name in shapes else "missing in the weights"
        raise ValueError(f"with {describe(suspects or sizes)}, {name} has the shape {shape} and is {in_file}.")


def describe(sizes: Mapping[str, int]) -> str:
    """Settings as `model.hidden_size=64, model.num_layers=2`."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items())


@contextmanager
def limited_parameters(limit: int) -> Iterator[None]:
    """Raise TooManyParametersError in this thread when modules have registered more than `limit` parameters."""
    thread, count = threading.get_ident(), 0

    def check(module: nn.Module, name: str, parameter: nn.Parameter) -> None:
        nonlocal count
        # the hook is called for the modules of all threads
        count += threading.get_ident() == thread
        if count > limit:
            raise TooManyParametersError

    handle = nn.modules.module.register_module_parameter_registration_hook(check)
    try:
        yield
    finally:
        handle.remove()
