"""Start the studio: folders, token, address, server, browser."""

import os
import sys
import threading
import webbrowser
from collections.abc import Callable, Sequence
from pathlib import Path

from regard._utils import DEMO_SYSTEMS, load_last_demo, user_data_folder
from regard.checkpoint import RunFolder
from regard.serving import BoundedServer, bind, names_of, own_token, write_redirect
from regard.studio.app import make_app
from regard.studio.demo_training import DemoTraining
from regard.studio.experiment_jobs import ExperimentJobs
from regard.studio.model_registry import ModelRegistry, runs_below
from regard.studio.state import Studio


def make_studio(folders: Sequence[Path]) -> Studio:
    """The studio for these folders, else for the last demo; without either, a demo is trained."""
    for folder in folders:
        if not folder.is_dir():
            raise ValueError(f"{folder} is not a folder. Name one that `regard train` or `regard demo` wrote.")
        # the walk ends at the first run
        if next(runs_below(folder.resolve()), None) is None:
            raise ValueError(f"there is no checkpoint in {folder}. Name a folder that `regard train` wrote.")
    experiments = ExperimentJobs(user_data_folder())
    if folders:
        return Studio(registry=ModelRegistry(folders), experiments=experiments)
    # the last demo, one in the working folder, one that an earlier studio trained
    for demo in (load_last_demo(), Path("demo"), user_data_folder() / "demo"):
        if demo is not None and is_finished(demo):
            return Studio(registry=ModelRegistry([demo]), experiments=experiments)
    folder = user_data_folder() / "demo"
    training = DemoTraining(folder)
    training.start()
    return Studio(registry=ModelRegistry([folder]), experiments=experiments, demo_training=training)


def is_finished(demo: Path) -> bool:
    """True if every system of a demo is trained."""
    names = {folder.name for folder in runs_below(demo.resolve()) if RunFolder(folder).weights.is_file()}
    return names >= set(DEMO_SYSTEMS)


def serve_studio(
    folders: Sequence[Path],
    *,
    host: str,
    port: int | None,
    browser: bool,
    show: Callable[[str], None],
    new_token: bool = False,
) -> None:
    """Serve until interrupted; `show` is called with the address as soon as the page can be opened."""
    # bound before the models are scanned, so that a taken port is reported at once
    listener = bind(host, port)
    studio = make_studio(folders)
    # port 0 lets the system choose
    token, bound_port = own_token(new=new_token), listener.getsockname()[1]
    # the guard accepts these as Host headers
    names = names_of(host, bound_port)
    app = make_app(studio, token=token, hosts=names)
    address = f"http://{names[0]}/"
    server = BoundedServer(app)
    # the socket is open already, so that a page opened now waits in its backlog
    show(f"{address}?token={token}")
    redirect = write_redirect(f"{address}?token={token}") if browser else None
    if browser:
        # without the file the page asks for the token
        target = address if redirect is None else redirect.as_uri()
        # a thread, because opening a browser may block
        threading.Thread(target=webbrowser.open, args=(target,), daemon=True).start()
    try:
        server.run(sockets=[listener])
    # uvicorn raises the signal again after its own shutdown
    except KeyboardInterrupt:
        pass
    finally:
        if redirect is not None:
            redirect.unlink(missing_ok=True)
        studio.close()
    # exit without waiting for a running inspection or experiment
    # _exit runs no handlers and flushes no streams
    sys.stdout.flush()
    os._exit(0)
