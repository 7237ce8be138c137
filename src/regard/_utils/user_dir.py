"""What is remembered between two days, in the user's own folder: where the last demo is."""

import json
from contextlib import suppress
from pathlib import Path

from regard._utils.files import make_folder, write_atomic

DEMO_SYSTEMS = ("seq2seq", "bahdanau", "transformer")
"""What `regard demo` trains, in this order."""


def home() -> Path:
    """The user's own folder for the data of a program: on Linux in XDG_DATA_HOME, or in ~/.local/share."""
    from platformdirs import user_data_path

    return user_data_path("regard", appauthor=False)


def remember_demo(folder: Path) -> None:
    """Where the studio will look; a home that cannot be written to is no reason to fail."""
    with suppress(OSError, ValueError):
        make_folder(home())
        text = json.dumps({"folder": str(folder.resolve())})
        write_atomic(home() / "last-demo.json", text.encode(), overwrite=True)


def last_demo() -> Path | None:
    """The folder of the last demo, if it is still there."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        folder = Path(json.loads((home() / "last-demo.json").read_text(encoding="utf-8"))["folder"])
        if folder.is_dir():
            return folder
    return None
