"""`regard.show`: look at where a model looked.

    with regard.trace(model) as maps:
        model(inputs)
    regard.show(maps, "encoder.0.attention", tokens=words)

In a terminal it prints, in a notebook it draws, and with a file it writes a figure (.png, .svg, .pdf) or one page that
needs nothing else (.html).
"""

import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from regard.contracts import check_free, write_atomic
from regard.display.choose import Maps, choose_panels
from regard.display.figure import figure_bytes, require_matplotlib
from regard.display.page import Page
from regard.display.picture import Picture
from regard.display.terminal import TerminalPicture

FIGURES = (".png", ".svg", ".pdf")


def show(
    maps: Maps,
    path: str | None = None,
    *,
    tokens: Sequence[str] | None = None,
    query_tokens: Sequence[str] | None = None,
    key_tokens: Sequence[str] | None = None,
    row: int = 0,
    heads: str | Sequence[int] = "each",
    axes: tuple[str, str] = ("queries", "keys"),
    file: str | Path | None = None,
    overwrite: bool = False,
) -> Page | None:
    """Draw attention weights: a trace, one of its maps, or a tensor (Q, K), (B, Q, K) or (B, H, Q, K).

    `path` chooses a module of a trace, or all below it. `tokens` label queries and keys alike; `query_tokens` and
    `key_tokens` label them apart. `row` is the row of the batch; `heads` is 'each', 'mean' or numbers; `axes` says what
    the rows are called, and the columns. A decoder's steps are put one below the other. Only a notebook gets something
    back: the page that it then shows.
    """
    target = None if file is None else checked_file(Path(file), overwrite=overwrite)
    panels = choose_panels(
        maps,
        path,
        row=row,
        heads=heads,
        query_tokens=tokens if query_tokens is None else query_tokens,
        key_tokens=tokens if key_tokens is None else key_tokens,
    )
    picture = Picture.of(panels, axes)
    if target is not None:
        suffix = target.suffix.lower()
        page = suffix == ".html"
        content = Page(picture).html().encode() if page else figure_bytes(picture, suffix.removeprefix("."))
        write_atomic(target, content, overwrite=overwrite)
        return None
    if in_notebook():
        return Page(picture)
    Console().print(TerminalPicture(picture))
    return None


def checked_file(file: Path, *, overwrite: bool) -> Path:
    """A file that can be written, known before anything is drawn."""
    suffix = file.suffix.lower()
    if suffix not in (*FIGURES, ".html"):
        raise ValueError(
            f"file is {str(file)!r} and ends in {suffix or 'nothing'}, expected {', '.join(FIGURES)} or .html."
        )
    check_free(file, overwrite=overwrite)
    if suffix in FIGURES:
        require_matplotlib()
    return file


def in_notebook() -> bool:
    """Whether a Jupyter kernel is running this; IPython in a terminal has a shell but no kernel."""
    ipython = sys.modules.get("IPython")
    shell = ipython.get_ipython() if ipython is not None else None
    return hasattr(shell, "kernel")
