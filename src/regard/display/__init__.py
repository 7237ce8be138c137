"""A trace as terminal text, as a figure, as one page that needs nothing else."""

from regard.display.show import show
from regard.display.write import check_free, write_atomic

__all__ = ["check_free", "show", "write_atomic"]
