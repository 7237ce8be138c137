"""Independent work in as many threads as torch would use, each torch operation in one.

Long sums are many short operations. Run one after the other, each in all threads, they wait for the slowest thread
after every one: on a busy machine most of the time. A thread of its own for every part waits once.
"""

from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

import torch

Part = TypeVar("Part")


def in_threads(work: Callable[[Part], None], parts: Iterable[Part]) -> None:
    """Do the work for every part; it must not touch what another part's work writes."""
    parts, num = list(parts), torch.get_num_threads()
    if len(parts) < 2 or num < 2:
        for part in parts:
            work(part)
        return
    try:
        # the number of threads is each thread's own, and what threads that start later begin with
        with ThreadPoolExecutor(min(num, len(parts)), initializer=torch.set_num_threads, initargs=(1,)) as pool:
            for _ in pool.map(work, parts):
                pass
    finally:
        torch.set_num_threads(num)
