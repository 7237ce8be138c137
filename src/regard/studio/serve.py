"""`regard studio`, from the folders to the open page."""

import os
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

import uvicorn

from regard._utils import DEMO_SYSTEMS, load_last_demo, user_data_folder
from regard.checkpoint import RunFolder
from regard.serving import bind, names_of, own_token
from regard.studio.app import make_app
from regard.studio.demo_training import DemoTraining
from regard.studio.model_registry import ModelRegistry, runs_below
from regard.studio.state import Studio


def make_studio(folders: Sequence[Path]) -> Studio:
    """On the folders given, else on those of the last demo; with neither, a demo begins to train."""
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder. Name one that `regard train` or `regard demo` wrote.")
        if next(runs_below(folder.resolve()), None) is None:
            raise ValueError(f"there is no checkpoint in {folder}. Name a folder that `regard train` wrote.")
    if folders:
        return Studio(registry=ModelRegistry(folders))
    for demo in (load_last_demo(), Path("demo"), user_data_folder() / "demo"):
        if demo is not None and is_finished(demo):
            return Studio(registry=ModelRegistry([demo]))
    own = user_data_folder() / "demo"
    training = DemoTraining(own)
    training.start()
    return Studio(registry=ModelRegistry([own]), demo_training=training)


def is_finished(demo: Path) -> bool:
    """Whether every system of a demo is trained."""
    names = {folder.name for folder in runs_below(demo.resolve()) if RunFolder(folder).weights.is_file()}
    return names >= set(DEMO_SYSTEMS)


def serve_studio(
    folders: Sequence[Path], *, host: str, port: int | None, browser: bool, show: Callable[[str], None]
) -> None:
    """Serve until interrupted; `show` gets the address as soon as the page can be opened."""
    listener = bind(host, port)
    studio = make_studio(folders)
    token, bound_port = own_token(), listener.getsockname()[1]
    names = names_of(host, bound_port)
    app = make_app(studio, token=token, hosts=names)
    address = f"http://{names[0]}/?token={token}"
    config = uvicorn.Config(app, log_level="warning", access_log=False, timeout_graceful_shutdown=2)
    server = uvicorn.Server(config)
    show(address)
    if browser:
        threading.Thread(target=webbrowser.open, args=(address,), daemon=True).start()
    try:
        server.run(sockets=[listener])
    except KeyboardInterrupt:
        pass
    finally:
        studio.close()
    # an inspection or an experiment that still runs is not waited for
    sys.stdout.flush()
    os._exit(0)
