"""The types that packages hand each other; torch is all they need."""

from regard.contracts.attention import Align, Aligned, Attended, Cache, Look, Lowered, Memory, Score
from regard.contracts.entry import Entry
from regard.contracts.mask import Grid, Mask
from regard.contracts.model import Model, Step
from regard.contracts.nest import map_tensors, select_rows
from regard.contracts.sequences import Sequences

__all__ = [
    "Align",
    "Aligned",
    "Attended",
    "Cache",
    "Entry",
    "Grid",
    "Look",
    "Lowered",
    "Mask",
    "Memory",
    "Model",
    "Score",
    "Sequences",
    "Step",
    "map_tensors",
    "select_rows",
]
