"""Attention weights as terminal text, as a figure, and as a self-contained HTML page."""

from regard.display.figure import drawn_bytes, has_matplotlib
from regard.display.html import Page
from regard.display.picture import Panel, Picture, visible
from regard.display.show import checked_file, show

__all__ = [
    "Page",
    "Panel",
    "Picture",
    "checked_file",
    "drawn_bytes",
    "has_matplotlib",
    "show",
    "visible",
]
