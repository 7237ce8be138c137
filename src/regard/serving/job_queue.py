"""A bounded queue that runs jobs one at a time outside the event loop, and the errors of a request.

A job is cancelled when its client disconnects, or by its name, which a client may choose in the header X-Job. A waiting
job leaves the queue at once, a running one ends between two of its steps (`regard.contracts.check_cancelled`).
"""

import asyncio
import threading
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any, Protocol, TypeVar

from regard.contracts import cancellable

Result = TypeVar("Result")
JOB_HEADER = "x-job"


class MissingError(Exception):
    """A name in a request does not exist; its message is sent with status 404."""


class RefusedError(ValueError):
    """A value that cannot be served; its message is sent. Any other ValueError is an error of the server."""


class BusyError(Exception):
    """Too many requests are waiting."""


class GoneError(Exception):
    """The client has disconnected, or has cancelled its job."""


@contextmanager
def refusing() -> Iterator[None]:
    """Turns a ValueError into a RefusedError, whose message is sent to the client."""
    try:
        yield
    except ValueError as error:
        raise RefusedError(str(error)) from None


class Client(Protocol):
    """A request whose body has been received; `receive` returns again when its client disconnects."""

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def receive(self) -> Callable[[], Any]: ...


async def wait_until_gone(client: Client) -> None:
    """Return when the client disconnects."""
    while (await client.receive())["type"] != "http.disconnect":
        pass


class JobQueue:
    """A queue of bounded length for one worker thread; torch itself uses all cores."""

    def __init__(self, max_waiting: int) -> None:
        self.max_waiting = max_waiting
        self.num_waiting = 0
        # waiting happens in the event loop, so that a client that disconnects leaves the queue
        self._turn = asyncio.Semaphore(1)
        self._threads = ThreadPoolExecutor(max_workers=1, thread_name_prefix="jobs")
        self._cancels: dict[str, asyncio.Event] = {}

    async def run(self, client: Client, job: Callable[[], Result]) -> Result:
        """Wait for the jobs before it, then run the job; GoneError if it is cancelled or its client disconnects."""
        if self.num_waiting >= self.max_waiting:
            raise BusyError(f"{self.num_waiting} requests are already waiting. Try again in a second.")
        name, cancel, is_cancelled = client.headers.get(JOB_HEADER), asyncio.Event(), threading.Event()
        # no await lies between the check and this line, so requests that arrive together respect the limit
        self.num_waiting += 1
        if name is not None:
            self._cancels[name] = cancel
        work = asyncio.ensure_future(self._run(job, is_cancelled))
        ends = [asyncio.ensure_future(wait) for wait in (wait_until_gone(client), cancel.wait())]
        try:
            # the ends first: a client that has disconnected already must not start its job
            await asyncio.wait([*ends, work], return_when=asyncio.FIRST_COMPLETED)
            if not work.done():
                raise GoneError("the job was cancelled.")
            return work.result()
        finally:
            # the thread is not interrupted: it ends at its next check, and the next job starts after it
            is_cancelled.set()
            for task in (*ends, work):
                task.cancel()
            self.num_waiting -= 1
            if name is not None and self._cancels.get(name) is cancel:
                del self._cancels[name]

    async def _run(self, job: Callable[[], Result], is_cancelled: threading.Event) -> Result:
        def run() -> Result:
            with cancellable(is_cancelled.is_set):
                return job()

        async with self._turn:
            return await asyncio.get_running_loop().run_in_executor(self._threads, run)

    def cancel(self, name: str) -> None:
        """Cancel the waiting or running job of this name."""
        cancel = self._cancels.get(name)
        if cancel is None:
            raise MissingError(f"no job called {name!r} is waiting or running.")
        cancel.set()

    def close(self) -> None:
        """Accept no more jobs."""
        self._threads.shutdown(wait=False, cancel_futures=True)
