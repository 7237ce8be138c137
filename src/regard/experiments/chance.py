"""Chance that repeats: the same seed gives the same numbers, and nobody else's chance is touched."""

from collections.abc import Iterator
from contextlib import contextmanager

import torch


@contextmanager
def seeded(seed: int) -> Iterator[None]:
    """Draw everything inside from this seed, and leave the global generator as it was.

    One thread adds up in one order, so that machines agree; for tensors this small it is also the fastest.
    """
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(seed)
            yield
    finally:
        torch.set_num_threads(threads)
