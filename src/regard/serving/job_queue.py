"""Jobs off the event loop, one at a time in a bounded queue, and the errors of a request."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class MissingError(Exception):
    """Something that a request names does not exist."""


class RefusedError(ValueError):
    """A value that cannot be served, in a sentence; any other ValueError is a fault of the server."""


class BusyError(Exception):
    """Too many requests are waiting."""


class GoneError(Exception):
    """The client has disconnected."""


@contextmanager
def refusing() -> Iterator[None]:
    """A ValueError inside is the user's: its sentence is sent."""
    try:
        yield
    except ValueError as error:
        raise RefusedError(str(error)) from None


class Client(Protocol):
    """A request that may be given up."""

    async def is_disconnected(self) -> bool:
        """Whether the answer is no longer waited for."""
        ...


class JobQueue:
    """A queue of bounded length in front of one thread: torch uses as many threads of its own as there are cores."""

    def __init__(self, max_waiting: int) -> None:
        self.max_waiting = max_waiting
        self.num_waiting = 0
        self._turn = asyncio.Semaphore(1)
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jobs")

    async def run(self, client: Client, job: Callable[[], Result]) -> Result:
        """The result of the job, once it is its turn; the job of a client that has gone is not started."""
        if self.num_waiting >= self.max_waiting:
            raise BusyError(f"{self.num_waiting} requests are waiting already. Try again in a second.")
        self.num_waiting += 1
        try:
            async with self._turn:
                if await client.is_disconnected():
                    raise GoneError
                return await asyncio.get_running_loop().run_in_executor(self._threads, job)
        finally:
            self.num_waiting -= 1

    def close(self) -> None:
        """Accept no more jobs."""
        self._threads.shutdown(wait=False, cancel_futures=True)
