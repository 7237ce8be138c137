"""Connections of a server: half a request is dropped, and never costs the owner a connection."""

import asyncio

import pytest

pytest.importorskip("uvicorn", reason="the studio is an extra")

import uvicorn
from uvicorn.server import ServerState

from regard.serving import Guard
from regard.serving.connections import MIN_CONNECTIONS, BoundedProtocol, max_connections

HEAD = b"GET /api/state HTTP/1.1\r\nHost: 127.0.0.1\r\n"
GET = HEAD + b"\r\n"
WITH_TOKEN = HEAD + b"Authorization: Bearer secret\r\n\r\n"
POST = b"POST /api/x HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Bearer secret\r\nContent-Length: 4\r\n\r\n"


class FakeLoop:
    """The running loop with a clock that the test moves."""

    def __init__(self):
        self.now, self.timers = 0.0, []

    def time(self):
        self.now += 1e-3
        return self.now

    def create_task(self, *arguments, **options):
        return asyncio.get_running_loop().create_task(*arguments, **options)

    def call_later(self, seconds, call):
        timer = asyncio.TimerHandle(self.now + seconds, call, (), asyncio.get_running_loop())
        self.timers.append(timer)
        return timer

    def advance(self, seconds):
        self.now += seconds
        for timer in [one for one in self.timers if one.when() <= self.now and not one.cancelled()]:
            self.timers.remove(timer)
            timer._run()


class FakeTransport(asyncio.Transport):
    """A connection whose client is the test."""

    def __init__(self, protocol):
        super().__init__()
        self.protocol, self.written, self.is_open = protocol, b"", True

    def write(self, data):
        self.written += data

    def is_closing(self):
        return not self.is_open

    def close(self):
        if self.is_open:
            asyncio.get_running_loop().call_soon(self.protocol.connection_lost, None)
        self.is_open = False

    abort = close

    def pause_reading(self):
        pass

    resume_reading = pause_reading


class Server:
    """Protocols of one server without sockets; the application answers when `release` is set."""

    def __init__(self, limit=100):
        self.release, self.loop, self.state = asyncio.Event(), FakeLoop(), ServerState()
        self.config = uvicorn.Config(Guard(self.answer, token="secret", hosts=["127.0.0.1"]), log_level="critical")
        self.protocol = type("Limited", (BoundedProtocol,), {"limit": limit})

    async def answer(self, scope, receive, send):
        await self.release.wait()
        await receive()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"0")]})
        await send({"type": "http.response.body", "body": b""})

    def connect(self, data=b""):
        connection = self.protocol(self.config, self.state, {}, self.loop)
        connection.connection_made(FakeTransport(connection))
        if data:
            connection.data_received(data)
        return connection


def run(test):
    """Run a coroutine function with a server of its own."""

    async def main():
        server = Server()
        await test(server)
        server.release.set()
        await settle()

    asyncio.run(main())


async def settle():
    """Let the tasks that are ready run."""
    for _ in range(5):
        await asyncio.sleep(0)


@pytest.mark.parametrize("data", [b"", HEAD[:10], HEAD, POST, POST + b"ab"])
def test_a_request_that_never_becomes_complete_is_dropped(data):
    async def test(server):
        connection = server.connect(data)
        await settle()
        server.loop.advance(19)
        assert connection.transport.is_open
        # a byte now and then does not prolong the deadline
        if data in (HEAD, POST):
            connection.data_received(b"X")
            server.loop.advance(2)
        else:
            server.loop.advance(2)
        assert not connection.transport.is_open and connection not in server.state.connections

    run(test)


@pytest.mark.parametrize("data", [WITH_TOKEN, POST + b"abcd"])
def test_a_complete_request_may_take_any_time_to_be_answered(data):
    async def test(server):
        connection = server.connect(data)
        await settle()
        server.loop.advance(3600)
        assert connection.transport.is_open
        server.release.set()
        await settle()
        assert connection.transport.written.startswith(b"HTTP/1.1 200")
        # the next request of the same connection has a deadline of its own
        connection.data_received(HEAD)
        server.loop.advance(21)
        assert not connection.transport.is_open

    run(test)


def test_a_client_that_reads_nothing_is_dropped():
    async def test(server):
        connection = server.connect(WITH_TOKEN)
        await settle()
        connection.pause_writing()
        connection.resume_writing()
        server.loop.advance(21)
        assert connection.transport.is_open
        connection.pause_writing()
        server.loop.advance(21)
        assert not connection.transport.is_open

    run(test)


def test_a_new_connection_replaces_the_oldest_without_the_token():
    async def main():
        server = Server(limit=3)
        owner, first, second = (server.connect(data) for data in (WITH_TOKEN, HEAD, GET))
        await settle()
        third = server.connect(HEAD)
        assert not first.transport.is_open
        assert [one.transport.is_open for one in (owner, second, third)] == [True] * 3
        fourth = server.connect(WITH_TOKEN)
        await settle()
        # a request without the token was answered, which gives its connection no right to stay
        assert second.transport.written.startswith(b"HTTP/1.1 401") and not second.transport.is_open
        server.connect(WITH_TOKEN)
        await settle()
        # now all are the owner's: the new one is dropped
        last = server.connect(HEAD)
        assert not last.transport.is_open and fourth.transport.is_open and len(server.state.connections) == 3

    asyncio.run(main())


def test_any_number_of_half_requests_leaves_room_for_the_owner():
    async def main():
        server = Server(limit=10)
        server.release.set()
        for _ in range(300):
            server.connect(HEAD)
        assert len(server.state.connections) == 10
        owner = server.connect(WITH_TOKEN)
        await settle()
        assert owner.transport.written.startswith(b"HTTP/1.1 200")

    asyncio.run(main())


@pytest.mark.parametrize(("files", "limit"), [(256, 96), (1024, 480), (65536, 512), (30, MIN_CONNECTIONS)])
def test_the_limit_leaves_open_files_for_everything_else(files, limit, monkeypatch):
    resource = pytest.importorskip("resource", reason="Windows has no limit of open files")
    monkeypatch.setattr(resource, "getrlimit", lambda which: (files, files))
    assert max_connections() == limit
