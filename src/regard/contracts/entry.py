"""One line of a table: what the command line, the studio, the docs and the tests all read."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Entry:
    """A mechanism with its place in history; `build` makes one (its arguments are the mechanism's own)."""

    build: Callable[..., Any]
    year: int
    formula: str
    cost: str
    paper: str
