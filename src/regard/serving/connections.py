"""A uvicorn server whose connections cannot be used up by clients that send half a request.

uvicorn has a deadline for an idle connection between two requests, but none for a request that never becomes complete,
and its `limit_concurrency` counts such connections, so that it would refuse the owner. Three rules replace it:

    receiving   a request is complete RECEIVE_SECONDS after its connection was opened, or after its first byte
    sending     a client that reads nothing of its response is dropped after SEND_SECONDS
    limit       if too many connections are open, a new one replaces the oldest that has no request with the token

By the last rule any number of half requests costs the owner nothing: each replaces another one. There is no limit per
address, because on loopback and behind a tunnel all clients have the same.
"""

import asyncio
import socket
from collections.abc import Callable
from typing import Any

import h11
import uvicorn
from uvicorn.protocols.http.h11_impl import H11Protocol

try:
    import resource
except ImportError:  # not on Windows
    resource = None  # type: ignore[assignment]

RECEIVE_SECONDS = SEND_SECONDS = 20.0
MAX_CONNECTIONS, MIN_CONNECTIONS = 512, 16
OTHER_FILES = 64
"""Files that the process has open beside connections: weights, libraries, the event loop."""
ACCEPTED_AT_ONCE = 32
"""Connections that are accepted in one pass of the event loop, before their protocols can replace others."""
BACKLOG = 2048
"""Connections that the system completes while none is accepted."""
HAS_TOKEN = "has_token"
"""The key in a request's `state` by which the guard marks a request with the token."""


def max_connections() -> int:
    """The limit of connections: well below the limit of open files, which would stop the server from accepting any."""
    if resource is None:
        return MAX_CONNECTIONS
    soft_limit, _ = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft_limit == resource.RLIM_INFINITY:
        return MAX_CONNECTIONS
    # half of the rest: connections that are accepted or closed at the moment are open as well
    return min(max((soft_limit - OTHER_FILES) // 2, MIN_CONNECTIONS), MAX_CONNECTIONS)


CallLater = Callable[[float, Callable[[], None]], asyncio.TimerHandle]


class Deadline:
    """A timer that drops a connection unless it is cancelled; `call_later` is that of an event loop."""

    def __init__(self, call_later: CallLater, seconds: float, drop: Callable[[], None]) -> None:
        self.call_later, self.seconds, self.drop = call_later, seconds, drop
        self.timer: asyncio.TimerHandle | None = None

    def start(self) -> None:
        """Start the timer; one that runs already is not prolonged."""
        if self.timer is None:
            self.timer = self.call_later(self.seconds, self.drop)

    def cancel(self) -> None:
        """Stop the timer."""
        if self.timer is not None:
            self.timer.cancel()
            self.timer = None


class BoundedProtocol(H11Protocol):
    """HTTP with deadlines, and a limit of connections that never costs a request with the token its own."""

    limit = max_connections()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Replace another connection if there are too many."""
        super().connection_made(transport)  # type: ignore[arg-type]
        self.opened_at = self.loop.time()
        self.receiving = Deadline(self.loop.call_later, RECEIVE_SECONDS, self.drop)
        self.sending = Deadline(self.loop.call_later, SEND_SECONDS, self.drop)
        self.receiving.start()
        if len(self.connections) > self.limit:
            # the new connection itself is the last candidate: if all others have the token, it is dropped
            candidates = [one for one in self.connections if isinstance(one, BoundedProtocol) and not one.is_trusted]
            min(candidates, key=lambda one: one.opened_at).drop()

    @property
    def is_trusted(self) -> bool:
        """True while a request with the token is being answered."""
        is_answered = self.cycle is None or self.cycle.response_complete
        return not is_answered and bool(self.scope["state"].get(HAS_TOKEN))

    def drop(self) -> None:
        """Close the connection at once."""
        # now and not when the transport has closed: the next new connection must not choose this one again
        self.connections.discard(self)
        self.transport.abort()

    def data_received(self, data: bytes) -> None:
        """Part of a request."""
        super().data_received(data)
        self.update()

    def on_response_complete(self) -> None:
        """The next request may have arrived in part."""
        super().on_response_complete()
        self.update()

    def update(self) -> None:
        """Start the deadline for a request that is incomplete, and cancel it for one that is complete."""
        state = self.conn.their_state
        # between two requests uvicorn's own timer runs, until the first byte arrives
        if state is h11.SEND_BODY or (state is h11.IDLE and self.timeout_keep_alive_task is None):
            self.receiving.start()
        else:
            self.receiving.cancel()

    def pause_writing(self) -> None:
        """The client reads more slowly than the response is written."""
        super().pause_writing()
        self.sending.start()

    def resume_writing(self) -> None:
        """The client has read."""
        super().resume_writing()
        self.sending.cancel()

    def connection_lost(self, exc: Exception | None) -> None:
        """No deadline outlives its connection."""
        self.receiving.cancel()
        self.sending.cancel()
        super().connection_lost(exc)


class BoundedServer(uvicorn.Server):
    """Serves an application with bounded connections."""

    def __init__(self, app: Any) -> None:
        # no access log: the first address contains the token
        super().__init__(
            uvicorn.Config(
                app,
                http=BoundedProtocol,
                backlog=ACCEPTED_AT_ONCE,
                log_level="warning",
                access_log=False,
                timeout_graceful_shutdown=2,
            )
        )

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Start to accept connections."""
        await super().startup(sockets)
        # asyncio accepts as many connections in a row as its backlog allows, and only then calls their protocols.
        # Its backlog is therefore small, and that of the system is restored here.
        for listener in sockets or []:
            listener.listen(BACKLOG)
