"""A bounded queue that runs jobs one at a time outside the event loop, and the errors of a request."""

import asyncio
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Protocol, TypeVar

Result = TypeVar("Result")


class MissingError(Exception):
    """A name in a request does not exist; its message is sent with status 404."""


class RefusedError(ValueError):
    """A value that cannot be served; its message is sent. Any other ValueError is an error of the server."""


class BusyError(Exception):
    """Too many requests are waiting."""


class GoneError(Exception):
    """The client has disconnected."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turns a ValueError into a RefusedError, whose message is sent to the client."""
    try:
        yield
    except ValueError as error:
        raise RefusedError(str(error)) from None


class Client(Protocol):
    """A request whose client may disconnect."""

    async def is_disconnected(self) -> bool: ...


class JobQueue:
    """A queue of bounded length for one worker thread; torch itself uses all cores."""

    def __init__(self, max_waiting: int) -> None:
        self.max_waiting = max_waiting
        self.num_waiting = 0
        # waiting happens in the event loop, so that a client that disconnects leaves the queue
        self._turn = asyncio.Semaphore(1)
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jobs")

    async def run(self, client: Client, job: Callable[[], Result]) -> Result:
        """Wait for the jobs before it, then run the job; GoneError if the client has disconnected by then."""
        if self.num_waiting >= self.max_waiting:
            raise BusyError(f"{self.num_waiting} requests are already waiting. Try again in a second.")
        # no await lies between the check and this line, so requests that arrive together respect the limit
        self.num_waiting += 1
        try:
            async with self._turn:
                # the job is left out, because its result cannot be sent
                if await client.is_disconnected():
                    raise GoneError
                return await asyncio.get_running_loop().run_in_executor(self._threads, job)
        finally:
            self.num_waiting -= 1

    def close(self) -> None:
        """Accept no more jobs."""
        self._threads.shutdown(wait=False, cancel_futures=True)
