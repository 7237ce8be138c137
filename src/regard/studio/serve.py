"""`regard studio`, from the folders to the open page."""

import socket
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from regard.recipes import home, last_demo
from regard.storage import Checkpoint
from regard.studio.app import make_app
from regard.studio.prepare import SYSTEMS, Preparation
from regard.studio.shelf import Shelf, runs_below
from regard.studio.studio import Studio
from regard.studio.token import own_token

LOOPBACK = "127.0.0.1"
PORT, TRIES = 8765, 20


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
    return all(Checkpoint(demo / name).weights.is_file() for name in SYSTEMS)


def bind(host: str, port: int | None) -> socket.socket:
    """A socket that listens; without a wish the usual port, or one after it."""
    wanted = [port] if port is not None else range(PORT, PORT + TRIES)
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    for one in wanted:
        # said to be TCP, or asyncio does not turn Nagle's algorithm off, which costs 40 ms an answer
        made = socket.socket(family, socket.SOCK_STREAM, socket.IPPROTO_TCP)
        made.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            made.bind((host, one))
        except OSError as error:
            made.close()
            problem = error
            continue
        return made
    raise ValueError(f"{host}, port {wanted[0]} cannot be had ({problem.strerror}). Choose another with --port.")


def names_of(host: str, port: int) -> list[str]:
    """Every Host header by which the studio is really meant, the one to print first."""
    own = ["127.0.0.1", "localhost", "[::1]"] if host in (LOOPBACK, "localhost", "::1") else []
    shown = LOOPBACK if host == "0.0.0.0" else f"[{host}]" if ":" in host else host
    return [f"{name}:{port}" for name in dict.fromkeys([shown, *own])]


def serve(folders: Sequence[Path], *, host: str, port: int | None, browser: bool, say: Callable[[str], None]) -> None:
    """Serve until interrupted; the address is said as soon as the page can be opened."""
    studio = make_studio(folders)
    listening = bind(host, port)
    token, taken = own_token(), listening.getsockname()[1]
    names = names_of(host, taken)
    app = make_app(studio, token=token, hosts=names)
    address = f"http://{names[0]}/?token={token}"
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    say(address)
    if browser:
        threading.Timer(0.3, webbrowser.open, (address,)).start()
    server.run(sockets=[listening])
