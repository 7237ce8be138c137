"""Batches side by side on a CPU, each on its share of the cores.

Within one batch all cores wait for each other at every product, and most stand still between products. Two batches at
once, each with half the cores, keep them busy.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from typing import TypeVar

import torch
from torch import nn

from regard.contracts import Model, has_hooks, unwrap

MOST_WORKERS = 4
FEWEST_TOKENS = 512
"""Source tokens of a batch that is worth a worker."""

Given = TypeVar("Given")
Made = TypeVar("Made")


def count_workers(model: Model, device: torch.device) -> int:
    """How many batches go side by side: one where the cores are a GPU's, or where someone watches the model's calls."""
    module = unwrap(model)
    if device.type != "cpu" or not isinstance(module, nn.Module) or torch.is_autocast_enabled("cpu"):
        return 1
    # a compiled model is compiled by whoever calls it first, and what others call meanwhile is nobody's promise
    alone = has_hooks(module) or hasattr(module, "_orig_mod")
    return 1 if alone else min(torch.get_num_threads(), MOST_WORKERS)


def share_of(num_tokens: int, most: int, workers: int) -> int:
    """Tokens a batch so that every worker has two, with some room for padding, and no more than were allowed."""
    if workers == 1:
        return most
    return min(most, max(int(1.15 * num_tokens / (2 * workers)), FEWEST_TOKENS))


def side_by_side(function: Callable[[Given], Made], items: Sequence[Given], *, workers: int) -> list[Made]:
    """The function of every item, in order; what one raises is raised here, and those that have not begun do not."""
    workers = min(workers, len(items))
    if workers <= 1:
        return [function(item) for item in items]
    threads = torch.get_num_threads()
    pool = ThreadPoolExecutor(workers, initializer=torch.set_num_threads, initargs=(max(threads // workers, 1),))
    try:
        made = [pool.submit(copy_context().run, function, item) for item in items]
        return [one.result() for one in made]
    finally:
        pool.shutdown(cancel_futures=True)
        torch.set_num_threads(threads)
