"""`regard studio`: a local page that shows the attention of trained models."""

from importlib.util import find_spec
from pathlib import Path
from typing import Annotated

import typer
from rich.console import Console
from rich.text import Text

from regard.cli.streams import warn


def studio(
    folders: Annotated[
        list[Path] | None, typer.Argument(help="Checkpoints, or folders of them (default: those of the last demo).")
    ] = None,
    port: Annotated[
        int | None, typer.Option(min=1, max=65535, help="Default: 8765, or the next port that is free.")
    ] = None,
    host: Annotated[
        str, typer.Option(help="Any address but loopback is open to other machines; they need the token.")
    ] = "127.0.0.1",
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Open the page in a browser.")] = True,
    new_token: Annotated[
        bool, typer.Option("--new-token", help="Replace the token: addresses with the old one are refused.")
    ] = False,
) -> None:
    # both are checked at once; an ImportError would name one of them
    missing = [name for name in ("fastapi", "uvicorn") if find_spec(name) is None]
    if missing:
        raise ImportError(f"the studio needs {' and '.join(missing)}: pip install 'regard[studio]'.")
    # a late import, because fastapi and uvicorn are optional
    from regard.studio import is_built, serve_studio

    console = Console()
    if not is_built():
        warn("the page is not built, so only the API is served. Run `make page` in the repository.")
    serve_studio(
        folders or [],
        host=host,
        port=port,
        browser=browser,
        new_token=new_token,
        show=lambda address: console.print(Text(f"regard studio: {address}   (Ctrl-C ends it)"), soft_wrap=True),
    )
