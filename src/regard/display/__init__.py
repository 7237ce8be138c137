"""A trace as terminal text, as a figure, as one page that needs nothing else."""

from regard.display.show import show

__all__ = ["show"]
