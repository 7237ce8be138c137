"""Sizes at which compared systems have about equal numbers of parameters."""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import torch
from torch import nn

from regard.tasks import count_parameters, equal_size


def num_parameters(build: Callable[..., nn.Module], *arguments: Any) -> int:
    """The number of parameters of `build(*arguments)`."""
    # on "meta" no memory is allocated and no random number is drawn: only shapes are needed
    with torch.device("meta"):
        return count_parameters(build(*arguments))


def equal_sizes(
    build: Callable[[str, int], nn.Module], names: Sequence[str], *, reference: str, size: int
) -> dict[str, int]:
    """The size at which each system has about the parameters that the reference has at `size`."""
    goal = num_parameters(build, reference, size)
    return {name: equal_size(goal, partial(num_parameters, build, name), max_size=8 * size) for name in names}
