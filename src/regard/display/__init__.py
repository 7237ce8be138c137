"""A trace as terminal text, as a figure, as one page that needs nothing else."""

from regard.display.show import show
from regard.display.write import check_free, make_folder, write_atomic

__all__ = ["check_free", "make_folder", "show", "write_atomic"]
