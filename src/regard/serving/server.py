"""Sockets, ports and host names of a local server."""

import socket

from regard.serving.connections import BACKLOG

LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")
PORT, TRIES = 8765, 20


def bind(host: str, port: int | None) -> socket.socket:
    """A listening socket on the port, or without one on the first free port from 8765.

    Listening starts before the server runs, so that a page opened now gets its response as soon as it does.
    """
    if not host:
        raise ValueError("the host is empty, which would listen on every address. Leave out --host, or name one.")
    ports = [port] if port is not None else range(PORT, PORT + TRIES)
    problem = ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in ports:
        # without IPPROTO_TCP asyncio does not disable Nagle's algorithm, which costs 40 ms per response
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        # a port that a stopped server used is otherwise blocked for a minute
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((host, number))
            listener.listen(BACKLOG)
        except (OSError, TypeError, UnicodeError) as error:
            listener.close()
            problem = getattr(error, "strerror", None) or str(error)
            continue
        return listener
    raise ValueError(
        f"{host}, port {ports[0]} cannot be used ({problem}). Choose another with --port, or another --host."
    )


def names_of(host: str, port: int) -> list[str]:
    """Every Host header of a server at this address; the first is the one to print."""
    own_name = f"[{host}]" if ":" in host else host
    own = [LOOPBACK, "localhost", "[::1]"]
    if host in EVERYWHERE:
        names = [*own, *names_of_this_machine()]
    else:
        names = [own_name, *(own if host in (LOOPBACK, "localhost", "::1") else [])]
    hosts = [f"{name}:{port}" for name in dict.fromkeys(names)]
    # browsers omit the default port
    return hosts + (list(dict.fromkeys(names)) if port == 80 else [])


def names_of_this_machine() -> list[str]:
    """The host name and its addresses."""
    name = socket.gethostname()
    try:
        addresses = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except OSError:
        addresses = set()
    return [name.lower(), *sorted(f"[{address}]" if ":" in address else address for address in addresses)]
