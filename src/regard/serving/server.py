"""Sockets, ports and host names of a local server."""

import socket

LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")
PORT, TRIES, BACKLOG = 8765, 20, 2048


def bind(host: str, port: int | None) -> socket.socket:
    """A socket that listens, so that a page opened now is answered as soon as the server runs.

    Without a port it has the default one, or the next that is free.
    """
    if not host:
        raise ValueError("the host is empty, which would let everyone in. Leave out --host, or name one.")
    ports = [port] if port is not None else range(PORT, PORT + TRIES)
    problem = ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for number in ports:
        # without IPPROTO_TCP asyncio does not turn Nagle's algorithm off, which costs 40 ms an answer
        listener = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
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
    """Every Host header of a server at this address, the one to print first."""
    shown = f"[{host}]" if ":" in host else host
    own = [LOOPBACK, "localhost", "[::1]"]
    if host in EVERYWHERE:
        names = [*own, *names_of_this_machine()]
    else:
        names = [shown, *(own if host in (LOOPBACK, "localhost", "::1") else [])]
    hosts = [f"{name}:{port}" for name in dict.fromkeys(names)]
    # browsers leave the usual port out
    return hosts + (list(dict.fromkeys(names)) if port == 80 else [])


def names_of_this_machine() -> list[str]:
    """Its name and the addresses that this name has."""
    name = socket.gethostname()
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except OSError:
        found = set()
    return [name.lower(), *sorted(f"[{one}]" if ":" in one else one for one in found)]
