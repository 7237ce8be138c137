"""Heat maps as a figure: one panel a head, one colour scale, tokens where there is room to read them.

matplotlib is optional and is imported only here, late.
"""

import io
import math
import warnings
from collections import Counter
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any

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
LABEL_POINTS, MOST_NUMBERS = 10, 12
BAD_COLOUR = "#dddddd"


def has_matplotlib() -> bool:
    """Whether figures can be drawn."""
    return find_spec("matplotlib") is not None


def require_matplotlib() -> None:
    """An error that names the cure."""
    if not has_matplotlib():
        raise ImportError("figures need matplotlib: pip install matplotlib (the extra [plots] brings it)")


def figure_bytes(picture: Picture, kind: str) -> bytes:
    """The picture as a file of this kind: png, svg or pdf."""
    require_matplotlib()
    from matplotlib.figure import Figure

    columns = count_columns(picture)
    rows = math.ceil(len(picture.panels) / columns)
    width, height = panel_size(picture)
    figure = Figure(figsize=(columns * width + 1.6, rows * height + 1.0), layout="constrained")
    fonts = fonts_for(picture, embedded=kind != "svg")
    draw_panels(figure, picture, fonts, rows, columns)
    return save_bytes(figure, kind)


def count_columns(picture: Picture) -> int:
    """A line for each module where they have equally many heads, else a square."""
    heads = set(Counter(panel.path for panel in picture.panels).values())
    if len(heads) == 1 and 1 < max(heads) < len(picture.panels):
        return max(heads)
    return math.ceil(math.sqrt(len(picture.panels)))


def drawn_bytes(draw: Callable[[Any], None], kinds: Sequence[str]) -> dict[str, bytes]:
    """What `draw` puts into an empty figure, as a file of each kind."""
    require_matplotlib()
    from matplotlib.figure import Figure

    figure = Figure(layout="constrained")
    draw(figure)
    return {kind: save_bytes(figure, kind) for kind in kinds}


def save_bytes(figure: Any, kind: str) -> bytes:
    """A figure as bytes, the same every time; in SVG text stays text, in the reader's fonts."""
    from matplotlib import rc_context

    data = io.BytesIO()
    undated = {"svg": {"Date": None}, "pdf": {"CreationDate": None}}.get(kind)
    with rc_context({"svg.fonttype": "none", "svg.hashsalt": "regard"}), warnings.catch_warnings():
        # `fonts_for` has said in one sentence what matplotlib says once for each character
        warnings.filterwarnings("ignore", message=".*[Gg]lyph.*")
        figure.savefig(data, format=kind, dpi=150, metadata=undated)
    return data.getvalue()


def panel_size(picture: Picture) -> tuple[float, float]:
    """Inches across and down: cells that can be read where panels are few, small multiples of many."""
    most = 9.0 if len(picture.panels) == 1 else max(14.0 / math.sqrt(len(picture.panels)), 1.2)
    cells = (
        max(len(panel.key_tokens) for panel in picture.panels),
        max(len(panel.query_tokens) for panel in picture.panels),
    )
    across, down = (min(max(count * 0.3 + 0.5, 1.2), most) for count in cells)
    return across, down


def draw_panels(figure: Any, picture: Picture, fonts: list[str], rows: int, columns: int) -> None:
    """A grid of heat maps beside their common scale."""
    from matplotlib.colors import LinearSegmentedColormap

    colours = LinearSegmentedColormap.from_list("viridis_tenths", VIRIDIS).with_extremes(bad=BAD_COLOUR)
    grid = figure.subplots(rows, columns, squeeze=False)
    across, down = panel_size(picture)
    # panels that are labelled alike leave the labels to the edge of the grid
    alike = len({(panel.query_tokens, panel.key_tokens) for panel in picture.panels}) == 1
    for number, axes in enumerate(grid.flat):
        if number >= len(picture.panels):
            axes.set_axis_off()
            continue
        panel = picture.panels[number]
        weights = panel.weights.numpy()
        image = axes.imshow(weights, cmap=colours, vmin=picture.low, vmax=picture.high, aspect="auto")
        axes.set_title(panel.title, fontsize=9)
        at_left, at_bottom = number % columns == 0, number + columns >= len(picture.panels)
        label(axes.yaxis, panel.query_tokens if at_left or not alike else (), fonts, down)
        label(axes.xaxis, panel.key_tokens if at_bottom or not alike else (), fonts, across)
        if len(picture.panels) <= 4 and max(weights.shape) <= MOST_NUMBERS:
            write_numbers(axes, picture, panel)
    figure.supxlabel(picture.axes[1], fontsize=9)
    figure.supylabel(picture.axes[0], fontsize=9)
    figure.colorbar(image, ax=grid, label="weight", aspect=30, fraction=0.04, pad=0.02)


def label(axis: Any, tokens: tuple[str, ...], fonts: list[str], inches: float) -> None:
    """Tokens along an axis, as many as can be read."""
    room = max(int(inches * 72 / LABEL_POINTS), 1)
    shown = range(0, len(tokens), math.ceil(len(tokens) / room) or 1)
    axis.set_ticks(shown, [tokens[at] for at in shown], fontsize=8, fontfamily=fonts, parse_math=False)
    axis.set_tick_params(length=0)
    if axis.axis_name == "x" and any(len(tokens[at]) > 2 for at in shown):
        axis.set_tick_params(rotation=90)


def write_numbers(axes: Any, picture: Picture, panel: Panel) -> None:
    """Each weight in its cell, dark on light and light on dark."""
    for query, values in enumerate(panel.weights.tolist()):
        for key, value in enumerate(values):
            if math.isfinite(value):
                ink = "black" if picture.share(value) > 0.6 else "white"
                axes.text(key, query, f"{value:.2f}", ha="center", va="center", color=ink, fontsize=7)


def fonts_for(picture: Picture, *, embedded: bool) -> list[str]:
    """The usual font, then one that has the letters it lacks; where an embedded one is missing, that is said once."""
    from matplotlib import font_manager, get_data_path

    tokens = (token for panel in picture.panels for token in (*panel.query_tokens, *panel.key_tokens))
    usual = font_manager.get_font(f"{get_data_path()}/fonts/ttf/DejaVuSans.ttf").get_charmap()
    lacking = {letter for token in tokens for letter in token if ord(letter) not in usual}
    if not lacking:
        return ["DejaVu Sans"]
    found: dict[str, set[str]] = {}
    for font in font_manager.fontManager.ttflist:
        if font.name in CJK_FONTS:
            letters = font_manager.get_font(font.fname).get_charmap()
            found[font.name] = found.get(font.name, set()) | {letter for letter in lacking if ord(letter) in letters}
    best = max(found, key=lambda name: (len(found[name]), -CJK_FONTS.index(name)), default="")
    missing = sorted(lacking - found.get(best, set()))
    if missing and embedded:
        warnings.warn(
            f"no installed font has {''.join(missing[:8])!r}: boxes are drawn instead. Install Noto Sans CJK, or write "
            f".svg or .html, which use the reader's fonts.",
            stacklevel=2,
        )
    return ["DejaVu Sans", best] if found.get(best) else ["DejaVu Sans"]
