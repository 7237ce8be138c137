"""Heat maps in a terminal, in colour, or as shades where colours are off: in a file, a pipe, a log.

A cell is a number on its colour if the map is small, else two columns of colour. The characters of a shade are drawn in
the colour of their background, so that they are visible only without colours.
"""

import math
from collections.abc import Iterator
from functools import cache

from rich.cells import cell_len, set_cell_size
from rich.color import Color
from rich.columns import Columns
from rich.console import Console, ConsoleOptions, Group
from rich.style import Style
from rich.text import Text

from regard._utils import fixed
from regard.display.picture import Panel, Picture, colour

SHADES = " ·░▒▓█"
NUMBER_WIDTH, SHADE_WIDTH = 4, 2
MAX_NUMBERED_PANELS = 4
MAX_QUERY_WIDTH, MAX_KEY_WIDTH = 24, 12


class TerminalPicture:
    """A picture for rich, no wider than the console."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Columns | Text]:
        """The title, panels, several in a line if they fit, then the scale."""
        panels = [Group(*self.lines(panel, options.max_width)) for panel in self.picture.panels]
        if self.picture.title:
            yield Text(self.picture.title, style="bold", overflow="fold")
        yield Columns(panels, padding=(0, 3))
        yield self.scale()

    def lines(self, panel: Panel, width: int) -> Iterator[Text]:
        """The lines of a panel; one that is too wide is split into bands of keys."""
        # cells and not characters: wide letters, such as Chinese ones, take two columns
        labels = max(cell_len(token) for token in panel.query_tokens)
        # at most a third of the line, so that some columns remain
        labels = min(labels, MAX_QUERY_WIDTH, max(width // 3, 1)) + 1
        num_keys = len(panel.key_tokens)
        # two digits only if the whole row fits; otherwise bands of colours
        numbered = self.fits_numbers and labels + NUMBER_WIDTH * num_keys <= width
        cell_width = NUMBER_WIDTH if numbered else SHADE_WIDTH
        # at least one key per band, so that the loop ends on a narrow console
        band = max((width - labels) // cell_width, 1)
        if panel.title:
            yield Text(panel.title, style="bold", overflow="fold")
        for first in range(0, num_keys, band):
            keys = range(first, min(first + band, num_keys))
            yield from header([panel.key_tokens[key] for key in keys], labels, cell_width)
            for query, token in enumerate(panel.query_tokens):
                line = Text(set_cell_size(shortened(token, labels - 1), labels), no_wrap=True)
                for value in panel.weights[query, keys.start : keys.stop].tolist():
                    line.append(*self.cell(value, cell_width))
                yield line

    @property
    def fits_numbers(self) -> bool:
        """True if two digits are enough: few panels and weights between 0 and 1."""
        # 1.005 is the largest number that is written as 1.00
        in_range = self.picture.low >= 0 and self.picture.high <= 1.005
        return in_range and len(self.picture.panels) <= MAX_NUMBERED_PANELS

    def cell(self, value: float, width: int) -> tuple[str, Style]:
        """One weight; what is not finite, such as a masked score, stays blank."""
        if not math.isfinite(value):
            return " " * width, Style.null()
        share = self.picture.share(value)
        if width == NUMBER_WIDTH:
            # ".25" instead of "0.25" fits the cell
            number = fixed(value, 2)
            # "1.0" for 1: the cell has room for three characters and a space
            return f"{number[1:] if number.startswith('0') else number[:3]:>{width}}", ink_on(round(100 * share))
        return SHADES[round(share * (len(SHADES) - 1))] * width, block_of(round(100 * share))

    def scale(self) -> Text:
        """The colour scale and the names of the axes."""
        low, high = self.picture.low, self.picture.high
        line = Text(f"{fixed(low, 2)} ")
        for step in range(len(SHADES)):
            line.append(*self.cell(low + (high - low) * step / (len(SHADES) - 1), SHADE_WIDTH))
        rows, columns = self.picture.axes
        return line.append(f" {fixed(high, 2)}   rows: {rows}, columns: {columns}")


# cached by percent: at most 101 styles, while a picture has thousands of cells
@cache
def block_of(percent: int) -> Style:
    """Text and background of one colour."""
    background = Color.from_rgb(*colour(percent / 100))
    return Style(color=background, bgcolor=background)


@cache
def ink_on(percent: int) -> Style:
    """Black text on light colours, white on dark ones."""
    return Style(color="black" if percent > 60 else "white", bgcolor=Color.from_rgb(*colour(percent / 100)))


def header(tokens: list[str], labels: int, cell_width: int) -> Iterator[Text]:
    """Key tokens written downwards above their columns, aligned to the cells."""
    tokens = [shortened(token, MAX_KEY_WIDTH) for token in tokens]
    height = max(len(token) for token in tokens)
    for level in range(height):
        line = " " * labels
        for token in tokens:
            # shorter tokens end at the bottom, next to their column
            index = level - (height - len(token))
            letter = token[index] if index >= 0 else ""
            # a wide letter takes two columns, so the padding is counted in cells
            line += " " * (cell_width - cell_len(letter)) + letter
        yield Text(line, no_wrap=True)


def shortened(token: str, max_width: int) -> str:
    """A token of at most `max_width` columns, with … for what is cut off."""
    if cell_len(token) <= max_width:
        return token
    return set_cell_size(token, max(max_width - 1, 0)).rstrip() + "…"
