"""The user's data folder, and in it the path of the last demo."""

import json
from contextlib import suppress
from pathlib import Path

from regard._utils.files import make_folder, write_atomic

DEMO_SYSTEMS = ("seq2seq", "bahdanau", "transformer")
"""The models that `regard demo` trains, in this order."""

LAST_DEMO = "last-demo.json"


def user_data_folder() -> Path:
    """The user's folder for application data: on Linux in XDG_DATA_HOME, or in ~/.local/share."""
    # a late import: most commands do not need the folder
    from platformdirs import user_data_path

    return user_data_path("regard", appauthor=False)


def save_last_demo(folder: Path) -> None:
    """Save the path of a demo, so that the studio can open it; errors are ignored."""
    # the demo itself is complete: a read-only home folder must not make it fail
    with suppress(OSError, ValueError):
        make_folder(user_data_folder())
        text = json.dumps({"folder": str(folder.resolve())})
        write_atomic(user_data_folder() / LAST_DEMO, text.encode(), overwrite=True)


def load_last_demo() -> Path | None:
    """The folder of the last demo if it still exists."""
    with suppress(OSError, ValueError, TypeError, KeyError):
        folder = Path(json.loads((user_data_folder() / LAST_DEMO).read_text(encoding="utf-8"))["folder"])
        if folder.is_dir():
            return folder
    return None
