"""Entries of the literal tables of mechanisms and models, which the command line, the studio, docs and tests read."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from regard.contracts.inspection import Title


@dataclass(frozen=True, kw_only=True)
class MechanismEntry:
    """A score, alignment, mask or position scheme; `build` is its class or function."""

    build: Callable[..., Any]
    year: int
    formula: str
    cost: str
    paper: str


@dataclass(frozen=True, kw_only=True)
class ModelEntry:
    """A model: `build(config(..))` makes one.

    attends: its steps return weights (in families without a source: it attends to earlier positions).
    packs: it trains on packed batches.
    counts: it is estimated by counting, not by gradient descent.
    capturable: batches of equal shape run the same kernels, so a training step can be captured as a CUDA graph.
    variants: the paper's other forms, as changes of the config.
    summary: one or two sentences on the model, in both languages; the timeline shows them.
    parts: the model in the four words of the general task model (feature, query, attention and output model).
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
    summary: Title | None = None
    parts: Title | None = None
