"""Heat maps in a terminal: colour where there is colour, numbers and shades where there is none.

A cell is a number on its colour where the map is small, else two columns of colour. The shade below the colour is
drawn in that very colour, so that it is seen only where colours are not: in a file, a pipe, a log.
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

from regard.display.picture import Panel, Picture, colour

SHADES = " ·░▒▓█"
NUMBER_WIDTH, SHADE_WIDTH = 4, 2
MOST_NUMBERED_PANELS = 4
LONGEST_QUERY, LONGEST_KEY = 24, 12


class TerminalPicture:
    """A picture as rich prints it, as wide as the console and no wider."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> Iterator[Columns | Text]:
        """Panels side by side as they fit, then the scale."""
        panels = [Group(*self.lines(panel, options.max_width)) for panel in self.picture.panels]
        yield Columns(panels, padding=(0, 3))
        yield self.scale()

    def lines(self, panel: Panel, width: int) -> Iterator[Text]:
        """A panel, folded into bands of keys where it is too wide."""
        labels = max(cell_len(token) for token in panel.query_tokens)
        labels = min(labels, LONGEST_QUERY, max(width // 3, 1)) + 1
        num_keys = len(panel.key_tokens)
        numbered = self.fits_numbers and labels + NUMBER_WIDTH * num_keys <= width
        cell_width = NUMBER_WIDTH if numbered else SHADE_WIDTH
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
        """Whether numbers of two digits can say what there is to say."""
        within = self.picture.low >= 0 and self.picture.high <= 1.005
        return within and len(self.picture.panels) <= MOST_NUMBERED_PANELS

    def cell(self, value: float, width: int) -> tuple[str, Style]:
        """One weight; what is no number, such as a masked score, stays blank."""
        if not math.isfinite(value):
            return " " * width, Style.null()
        share = self.picture.share(value)
        if width == NUMBER_WIDTH:
            number = f"{value:.2f}"
            return f"{number[1:] if number.startswith('0') else number[:3]:>{width}}", ink_on(round(100 * share))
        return SHADES[round(share * (len(SHADES) - 1))] * width, block_of(round(100 * share))

    def scale(self) -> Text:
        """What the colours mean."""
        low, high = self.picture.low, self.picture.high
        line = Text(f"{low:.2f} ")
        for step in range(len(SHADES)):
            line.append(*self.cell(low + (high - low) * step / (len(SHADES) - 1), SHADE_WIDTH))
        rows, columns = self.picture.axes
        return line.append(f" {high:.2f}   rows: {rows}, columns: {columns}")


@cache
def block_of(percent: int) -> Style:
    """Nothing but colour: what is written in it is of that colour too."""
    behind = Color.from_rgb(*colour(percent / 100))
    return Style(color=behind, bgcolor=behind)


@cache
def ink_on(percent: int) -> Style:
    """A number on its colour, dark on light and light on dark."""
    return Style(color="black" if percent > 60 else "white", bgcolor=Color.from_rgb(*colour(percent / 100)))


def header(tokens: list[str], labels: int, cell_width: int) -> Iterator[Text]:
    """Key tokens from top to bottom, each above its column, ending at the cells."""
    tokens = [shortened(token, LONGEST_KEY) for token in tokens]
    height = max(len(token) for token in tokens)
    for level in range(height):
        line = " " * labels
        for token in tokens:
            place = level - (height - len(token))
            letter = token[place] if place >= 0 else ""
            line += " " * (cell_width - cell_len(letter)) + letter
        yield Text(line, no_wrap=True)


def shortened(token: str, longest: int) -> str:
    """A token of at most so many columns, its end replaced where it is longer."""
    if cell_len(token) <= longest:
        return token
    return set_cell_size(token, max(longest - 1, 0)).rstrip() + "…"
