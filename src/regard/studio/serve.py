"""`regard studio`, from the folders to the open page."""

import os
import socket
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from regard.recipes import DEMO_SYSTEMS, home, last_demo
from regard.storage import Checkpoint
from regard.studio.app import make_app
from regard.studio.prepare import Preparation
from regard.studio.shelf import Shelf, runs_below
from regard.studio.studio import Studio
from regard.studio.token import own_token

LOOPBACK = "127.0.0.1"
EVERYWHERE = ("0.0.0.0", "::")
PORT, TRIES, BACKLOG = 8765, 20, 2048


def make_studio(folders: Sequence[Path]) -> Studio:
    """On the folders given, else on those of the last demo; with neither, one begins to train."""
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder. Name one that `regard train` or `regard demo` wrote.")
        if next(runs_below(folder.resolve()), None) is None:
            raise ValueError(f"there is no checkpoint in {folder}. Name a folder that `regard train` wrote.")
    if folders:
        return Studio(shelf=Shelf(folders))
    for demo in (last_demo(), Path("demo"), home() / "demo"):
        if demo is not None and is_finished(demo):
            return Studio(shelf=Shelf([demo]))
    own = home() / "demo"
    preparation = Preparation(own)
    preparation.start()
    return Studio(shelf=Shelf([own]), preparation=preparation)


def is_finished(demo: Path) -> bool:
    """Whether every system of a demo is there."""
    found = {folder.name for folder in runs_below(demo.resolve()) if Checkpoint(folder).weights.is_file()}
    return found >= set(DEMO_SYSTEMS)


def bind(host: str, port: int | None) -> socket.socket:
    """A socket that listens, so that a page opened now is answered as soon as the server runs.

    Without a wish it has the usual port, or one after it.
    """
    if not host:
        raise ValueError("the host is empty, which would let everyone in. Leave out --host, or name one.")
    wanted = [port] if port is not None else range(PORT, PORT + TRIES)
    problem = ""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for one in wanted:
        # said to be TCP, or asyncio does not turn Nagle's algorithm off, which costs 40 ms an answer
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, one))
            made.listen(BACKLOG)
        except (OSError, TypeError, UnicodeError) as error:
            made.close()
            problem = getattr(error, "strerror", None) or str(error)
            continue
        return made
    raise ValueError(
        f"{host}, port {wanted[0]} cannot be had ({problem}). Choose another with --port, or another --host."
    )


def names_of(host: str, port: int) -> list[str]:
    """Every Host header by which the studio is really meant, the one to print first."""
    shown = f"[{host}]" if ":" in host else host
    own = [LOOPBACK, "localhost", "[::1]"]
    if host in EVERYWHERE:
        names = [*own, *names_of_this_machine()]
    else:
        names = [shown, *(own if host in (LOOPBACK, "localhost", "::1") else [])]
    told = [f"{name}:{port}" for name in dict.fromkeys(names)]
    # browsers leave the usual port out
    return told + (list(dict.fromkeys(names)) if port == 80 else [])


def names_of_this_machine() -> list[str]:
    """Its name and the addresses that this name has."""
    name = socket.gethostname()
    try:
        found = {str(info[4][0]) for info in socket.getaddrinfo(name, None)}
    except OSError:
        found = set()
    return [name.lower(), *sorted(f"[{one}]" if ":" in one else one for one in found)]


def serve(folders: Sequence[Path], *, host: str, port: int | None, browser: bool, say: Callable[[str], None]) -> None:
    """Serve until interrupted; the address is said as soon as the page can be opened."""
    listening = bind(host, port)
    studio = make_studio(folders)
    token, taken = own_token(), listening.getsockname()[1]
    names = names_of(host, taken)
    app = make_app(studio, token=token, hosts=names)
    address = f"http://{names[0]}/?token={token}"
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    say(address)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server.run(sockets=[listening])
    except KeyboardInterrupt:
        pass
    finally:
        studio.close()
    # a look or an experiment that is under way is not waited for
    sys.stdout.flush()
    os._exit(0)
