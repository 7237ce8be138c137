"""Heat maps as a matplotlib figure: one panel per head, one colour scale, tick labels as far as they fit.

matplotlib is optional: it is imported only in this file, inside functions.
"""

import io
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from contextlib import suppress
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from regard._utils import fixed
from regard.display.picture import VIRIDIS, Panel, Picture

CJK_FONTS = (
    "Noto Sans CJK SC",
    "Noto Sans SC",
    "Noto Sans CJK JP",
    "Source Han Sans SC",
    "Source Han Sans CN",
    "PingFang SC",
    "Hiragino Sans GB",
    "Heiti SC",
    "STHeiti",
    "Microsoft YaHei",
    "SimHei",
    "WenQuanYi Zen Hei",
    "WenQuanYi Micro Hei",
    "Droid Sans Fallback",
    "Arial Unicode MS",
    "Yu Gothic",
    "Malgun Gothic",
)
LABEL_POINTS, MAX_NUMBERED, MAX_NUMBERED_ALONE = 10, 12, 24
"""Points of a label; keys or queries up to which weights are written into the cells, of four panels and of one."""
BAD_COLOUR = "#dddddd"


def has_matplotlib() -> bool:
    # tests for the package without importing it, which is slow
    return find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    if not has_matplotlib():
        raise ImportError("figures need matplotlib: pip install matplotlib (the extra [plots] brings it)")


def figure_bytes(picture: Picture, file_format: str) -> bytes:
    """The picture as a file of this format: png, svg or pdf."""
    require_matplotlib()
    # `Figure` without pyplot: no window, no global state, and safe in threads
    from matplotlib.figure import Figure

    columns = count_columns(picture)
    rows = math.ceil(len(picture.panels) / columns)
    width, height = panel_size(picture)
    figure = Figure(figsize=(columns * width + 1.6, rows * height + 1.0), layout="constrained")
    # an SVG names its fonts, the other formats contain them
    fonts = fonts_for(picture, embedded=file_format != "svg")
    draw_panels(figure, picture, fonts, rows, columns)
    return save_bytes(figure, file_format)


def count_columns(picture: Picture) -> int:
    """One row of panels per module if all have the same number of heads, else a square grid."""
    heads = set(Counter(panel.path for panel in picture.panels).values())
    # a row per module only if several modules have several heads each
    if len(heads) == 1 and 1 < max(heads) < len(picture.panels):
        return max(heads)
    return math.ceil(math.sqrt(len(picture.panels)))


def drawn_bytes(draw: Callable[[Any], None], formats: Sequence[str], *, letters: str = "") -> dict[str, bytes]:
    """The figure that `draw` fills, as a file of each format, in fonts that have these letters if any is installed."""
    require_matplotlib()
    from matplotlib import rc_context
    from matplotlib.figure import Figure

    with rc_context({"font.family": fonts_with(letters, embedded=False)} if letters else {}):
        figure = Figure(layout="constrained")
        draw(figure)
        return {file_format: save_bytes(figure, file_format) for file_format in formats}


def save_bytes(figure: Any, file_format: str) -> bytes:
    """A figure as a file, the same bytes every time; in SVG, text stays text."""
    from matplotlib import rc_context

    data = io.BytesIO()
    # without dates, equal figures are equal files
    metadata = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(file_format)
    # svg.hashsalt makes the ids in an SVG equal in every run
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "regard"}), warnings.catch_warnings():
        # `fonts_for` has warned once; matplotlib would warn for each character
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        figure.savefig(data, format=file_format, dpi=150, metadata=metadata)
    return data.getvalue()


def panel_size(picture: Picture) -> tuple[float, float]:
    """Width and height in inches: large cells for few panels, small ones for many."""
    largest = 9.0 if len(picture.panels) == 1 else max(14.0 / math.sqrt(len(picture.panels)), 1.2)
    cells = (
        max(len(panel.key_tokens) for panel in picture.panels),
        max(len(panel.query_tokens) for panel in picture.panels),
    )
    width, height = (min(max(count * 0.3 + 0.5, 1.2), largest) for count in cells)
    return width, height


def draw_panels(figure: Any, picture: Picture, fonts: list[str], rows: int, columns: int) -> None:
    """A grid of heat maps with their common colour bar."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("viridis_tenths", VIRIDIS).with_extremes(bad=BAD_COLOUR)
    grid = figure.subplots(rows, columns, squeeze=False)
    width, height = panel_size(picture)
    # panels with the same tokens are labelled at the edge of the grid only
    same_tokens = len({(panel.query_tokens, panel.key_tokens) for panel in picture.panels}) == 1
    for number, axes in enumerate(grid.flat):
        if number >= len(picture.panels):
            axes.set_axis_off()
            continue
        panel = picture.panels[number]
        weights = panel.weights.numpy()
        # one range for all panels: equal colours are equal weights
        image = axes.imshow(weights, cmap=colours, vmin=picture.low, vmax=picture.high, aspect="auto")
        axes.set_title(panel.title, fontsize=9)
        # the last panel of each column, which may be in the row above the last one
        at_left, at_bottom = number % columns == 0, number + columns >= len(picture.panels)
        label(axes.yaxis, panel.query_tokens if at_left or not same_tokens else (), fonts, height)
        label(axes.xaxis, panel.key_tokens if at_bottom or not same_tokens else (), fonts, width)
        most = MAX_NUMBERED_ALONE if len(picture.panels) == 1 else MAX_NUMBERED
        if len(picture.panels) <= 4 and max(weights.shape) <= most:
            write_numbers(axes, picture, panel)
    if picture.title:
        # parse_math=False: a sentence may contain dollar signs
        figure.suptitle(picture.title, fontsize=11, fontfamily=fonts, parse_math=False, wrap=True)
    figure.supxlabel(picture.axes[1], fontsize=9)
    figure.supylabel(picture.axes[0], fontsize=9)
    figure.colorbar(image, ax=grid, label="weight", aspect=30, fraction=0.04, pad=0.02)


def label(axis: Any, tokens: tuple[str, ...], fonts: list[str], inches: float) -> None:
    """Tokens along an axis, every n-th where there is no room for all."""
    max_labels = max(int(inches * 72 / LABEL_POINTS), 1)
    # points per inch: 72; at least a step of 1, also without tokens
    ticks = range(0, len(tokens), math.ceil(len(tokens) / max_labels) or 1)
    # parse_math=False: a token such as $x$ is text
    axis.set_ticks(ticks, [tokens[tick] for tick in ticks], fontsize=8, fontfamily=fonts, parse_math=False)
    axis.set_tick_params(length=0)
    if axis.axis_name == "x":
        for tick, text in zip(ticks, axis.get_ticklabels(), strict=True):
            # a label of several characters would overlap its neighbours; each of the others stays upright
            text.set_rotation(90 if len(tokens[tick]) > 2 else 0)


def write_numbers(axes: Any, picture: Picture, panel: Panel) -> None:
    """Each weight in its cell, black on light colours and white on dark ones."""
    for query, values in enumerate(panel.weights.tolist()):
        for key, value in enumerate(values):
            if math.isfinite(value):
                ink = "black" if picture.share(value) > 0.6 else "white"
                axes.text(key, query, fixed(value, 2), ha="center", va="center", color=ink, fontsize=7)


def fonts_for(picture: Picture, *, embedded: bool) -> list[str]:
    """The fonts of a picture."""
    tokens = (token for panel in picture.panels for token in (*panel.query_tokens, *panel.key_tokens))
    return fonts_with("".join((*tokens, picture.title)), embedded=embedded)


def fonts_with(text: str, *, embedded: bool) -> list[str]:
    """The default font and one with the characters that it lacks; a warning if no font has them and it is embedded."""
    from matplotlib import font_manager, get_data_path

    default = font_manager.get_font(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf").get_charmap()
    missing = {letter for letter in text if ord(letter) not in default}
    if not missing:
        return ["DejaVu Sans"]
    best, covered = best_font(missing)
    if covered < missing and add_new_fonts():
        best, covered = best_font(missing)
    uncovered = sorted(missing - covered)
    if uncovered and embedded:
        warnings.warn(
            f"no installed font has {''.join(uncovered[:8])!r}: boxes are drawn instead. Install Noto Sans CJK, or "
            f"write .svg or .html, which use the reader's fonts.",
            stacklevel=2,
        )
    return ["DejaVu Sans", best] if covered else ["DejaVu Sans"]


def best_font(missing: set[str]) -> tuple[str, set[str]]:
    """The font of CJK_FONTS with the most of these characters, and those that it has."""
    from matplotlib import font_manager

    available: dict[str, set[str]] = {}
    # a family may have several files (weights, scripts), whose characters are joined
    for font in font_manager.fontManager.ttflist:
        if font.name in CJK_FONTS:
            letters = font_manager.get_font(font.fname).get_charmap()
            covered = {letter for letter in missing if ord(letter) in letters}
            available[font.name] = available.get(font.name, set()) | covered
    # the most characters; among equals the earlier one in the list
    best = max(available, key=lambda name: (len(available[name]), -CJK_FONTS.index(name)), default="")
    return best, available.get(best, set())


def add_new_fonts() -> bool:
    """Add the fonts that were installed after matplotlib stored its list; False if there are none."""
    from matplotlib import font_manager

    manager = font_manager.fontManager
    known = {Path(font.fname) for font in manager.ttflist}
    files = [file for file in font_manager.findSystemFonts() if Path(file) not in known]
    for file in files:
        # a file that is no font, or that matplotlib cannot read, is no reason to draw nothing
        with suppress(OSError, RuntimeError, ValueError):
            manager.addfont(file)
    return bool(files)
