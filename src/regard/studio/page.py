"""A site as one HTML file that opens from disk: the page that `regard.show` writes."""

from regard.display.page import Page
from regard.display.picture import Panel, Picture, visible
from regard.studio.errors import MissingError
from regard.studio.kept import Kept
from regard.studio.schema import Kind, Said, SideName

AXES: dict[SideName, Said] = {
    "source": Said(en="source", zh="源句"),
    "target": Said(en="target", zh="译文"),
    "read": Said(en="target so far", zh="已写的译文"),
}
TEXT, ROWS = Said(en="text", zh="文本"), Said(en="row", zh="行")
OTHER_AXES: dict[Kind, dict[SideName, Said]] = {
    "language": {"read": TEXT},
    "sentences": {"source": TEXT, "target": ROWS},
}
HEAD = Said(en="head {}", zh="第 {} 头")


def export_page(kept: Kept, path: str, head: int, language: str) -> str:
    """All heads of a site, or one of them, with their tokens."""
    weights = kept.weights(path).cpu()
    count = weights.shape[0]
    if head >= count:
        raise MissingError(f"{path} has {count} heads, counted from 0; there is no head {head}.")
    site = next(site for site in kept.message.sites if site.path == path)
    sides = {side.name: tuple(visible(token) for token in side.tokens) for side in kept.message.sides}
    label = getattr(HEAD, language)
    panels = tuple(
        Panel(
            path=path,
            head=label.format(number) if count > 1 else "",
            weights=weights[number],
            query_tokens=sides[site.queries],
            key_tokens=sides[site.keys][: weights.shape[-1]],
        )
        for number in (range(count) if head < 0 else (head,))
    )
    axes = {**AXES, **OTHER_AXES.get(kept.message.kind, {})}
    rows, columns = (getattr(axes[name], language) for name in (site.queries, site.keys))
    return Page(Picture.of(panels, (rows, columns)), language).html()
