"""Entries of the literal tables: mechanisms and models.

One line of a table: what the command line, the studio, the docs and the tests all read.

One line of the timeline: what the command line, recipes, the docs and the tests read of a system.
"""

from collections.abc import Callable, Mapping
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


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """A system with its place in history: `build(config(..))` makes one.

    `attends` says that its steps have an alignment (of other families, that it looks back at all), `packs` that it
    learns from batches without padding, `counts` that it is counted rather than trained. `capturable` says that batches
    of one shape always run the same kernels, so that a training step can be replayed as a CUDA graph. `variants` are
    the paper's other forms, as changes of the config.
    """

    build: Callable[..., Any]
    config: Callable[..., Any]
    year: int
    title: str
    formula: str
    paper: str
    attends: bool
    packs: bool = False
    counts: bool = False
    capturable: bool = False
    variants: tuple[Mapping[str, Any], ...] = ()
