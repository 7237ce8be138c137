"""Work off the event loop: one job at a time, a few that wait, and a clear word to everyone else."""

import asyncio
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Protocol, TypeVar

from regard.studio.errors import BusyError, GoneError

Made = TypeVar("Made")


class Asker(Protocol):
    """A request that may be given up."""

    async def is_disconnected(self) -> bool:
        """Whether nobody waits for the answer any more."""
        ...


class Work:
    """A queue of bounded length before one thread: torch's own threads are as many as there are cores."""

    def __init__(self, most_waiting: int) -> None:
        self.most_waiting = most_waiting
        self.waiting = 0
        self._turn = asyncio.Semaphore(1)
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="studio")

    async def run(self, asker: Asker, job: Callable[[], Made]) -> Made:
        """The job's result, when its turn has come; one that nobody waits for is not begun."""
        if self.waiting >= self.most_waiting:
            raise BusyError(f"{self.waiting} requests are waiting already. Try again in a second.")
        self.waiting += 1
        try:
            async with self._turn:
                if await asker.is_disconnected():
                    raise GoneError
                return await asyncio.get_running_loop().run_in_executor(self._threads, job)
        finally:
            self.waiting -= 1

    def close(self) -> None:
        """Take no more."""
        self._threads.shutdown(wait=False, cancel_futures=True)
