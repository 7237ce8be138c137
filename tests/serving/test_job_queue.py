"""Jobs: a client that leaves frees its place, and what it asked for ends between two steps."""

import asyncio
import threading

import pytest

pytest.importorskip("starlette", reason="the studio is an extra")

from regard.contracts import CancelledError, check_cancelled
from regard.serving import BusyError, GoneError, JobQueue, MissingError

WAIT = 20
"""Seconds after which a test gives up; none waits that long."""


class FakeClient:
    """A request whose client disconnects when `leave` is called."""

    def __init__(self, name=None):
        self.headers, self.gone = {} if name is None else {"x-job": name}, asyncio.Event()

    async def receive(self):
        await self.gone.wait()
        return {"type": "http.disconnect"}

    def leave(self):
        self.gone.set()


class LongJob:
    """Steps without end, as those of a decode loop; `ended` is what ended them."""

    def __init__(self):
        self.started, self.stopped, self.ended = threading.Event(), threading.Event(), None

    def __call__(self):
        self.started.set()
        try:
            while True:
                check_cancelled()
        except CancelledError as error:
            self.ended = error
            raise
        finally:
            self.stopped.set()


async def wait_for(event):
    """Wait for an event of another thread."""
    assert await asyncio.to_thread(event.wait, WAIT), "the job did not get there"


def run(scene):
    async def main():
        queue = JobQueue(max_waiting=2)
        try:
            await asyncio.wait_for(scene(queue), WAIT)
        finally:
            queue.close()

    asyncio.run(main())


def test_a_full_queue_is_busy():
    async def scene(queue):
        job, clients = LongJob(), [FakeClient() for _ in range(3)]
        tasks = [asyncio.create_task(queue.run(client, job)) for client in clients]
        with pytest.raises(BusyError, match="2 requests"):
            await tasks[2]
        for client in clients:
            client.leave()
        assert [type(result) for result in await asyncio.gather(*tasks[:2], return_exceptions=True)] == [GoneError] * 2
        assert queue.num_waiting == 0

    run(scene)


def test_a_client_that_leaves_stops_its_job_and_the_next_one_runs():
    async def scene(queue):
        job, client = LongJob(), FakeClient()
        task = asyncio.create_task(queue.run(client, job))
        await wait_for(job.started)
        after = asyncio.create_task(queue.run(FakeClient(), lambda: "after"))
        client.leave()
        with pytest.raises(GoneError):
            await task
        assert await after == "after" and job.stopped.is_set() and isinstance(job.ended, CancelledError)

    run(scene)


def test_a_client_that_leaves_frees_its_place_while_another_job_runs():
    async def scene(queue):
        job, runs = LongJob(), []
        first, second = FakeClient(), FakeClient()
        running = asyncio.create_task(queue.run(first, job))
        await wait_for(job.started)
        waiting = asyncio.create_task(queue.run(second, lambda: runs.append("second")))
        await asyncio.sleep(0)
        assert queue.num_waiting == 2
        second.leave()
        with pytest.raises(GoneError):
            await waiting
        # the first job still runs
        assert queue.num_waiting == 1 and not job.stopped.is_set()
        third = asyncio.create_task(queue.run(FakeClient(), lambda: "third"))
        first.leave()
        assert await third == "third" and runs == []
        with pytest.raises(GoneError):
            await running

    run(scene)


def test_a_job_is_cancelled_by_its_name():
    async def scene(queue):
        job = LongJob()
        task = asyncio.create_task(queue.run(FakeClient("mine"), job))
        await wait_for(job.started)
        with pytest.raises(MissingError, match="'other'"):
            queue.cancel("other")
        queue.cancel("mine")
        with pytest.raises(GoneError, match="cancelled"):
            await task
        await wait_for(job.stopped)
        with pytest.raises(MissingError):
            queue.cancel("mine")

    run(scene)


def test_results_and_errors_of_jobs_are_those_of_the_caller():
    async def scene(queue):
        assert await queue.run(FakeClient(), lambda: 3) == 3
        with pytest.raises(KeyError):
            await queue.run(FakeClient(), lambda: {}["x"])
        assert queue.num_waiting == 0

    run(scene)
