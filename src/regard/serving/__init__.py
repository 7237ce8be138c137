"""The base of the package's HTTP servers: connections, guard, job queue, sockets and host names."""

from regard.serving.connections import BoundedServer
from regard.serving.guard import Guard, own_token, write_redirect
from regard.serving.job_queue import BusyError, GoneError, JobQueue, MissingError, RefusedError, refusing
from regard.serving.server import bind, names_of

__all__ = [
    "BoundedServer",
    "BusyError",
    "GoneError",
    "Guard",
    "JobQueue",
    "MissingError",
    "RefusedError",
    "bind",
    "names_of",
    "own_token",
    "refusing",
    "write_redirect",
]
