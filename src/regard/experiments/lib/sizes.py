"""Sizes at which compared systems have about equal numbers of parameters."""

from collections.abc import Callable, Sequence
from functools import partial

import torch
from torch import nn

from regard.tasks import count_parameters, equal_size


def equal_sizes(
    build: Callable[[str, int], nn.Module], names: Sequence[str], *, reference: str, size: int
) -> dict[str, int]:
    """The size at which each system has about the parameters that the reference has at `size`."""

    def parameters_of(name: str, size: int) -> int:
        # on "meta" no memory is allocated and no random number is drawn: only shapes are needed
        with torch.device("meta"):
            return count_parameters(build(name, size))

    goal = parameters_of(reference, size)
    return {name: equal_size(goal, partial(parameters_of, name), max_size=8 * size) for name in names}
