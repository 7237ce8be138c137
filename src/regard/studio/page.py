"""A site as one HTML file that opens from disk: the page that `regard.show` writes."""

from regard.display.choose import choose_panels
from regard.display.page import Page
from regard.display.picture import Picture
from regard.studio.errors import MissingError
from regard.studio.looks import Kept
from regard.studio.schema import Said, SideName

AXES: dict[SideName, Said] = {
    "source": Said(en="source", zh="源句"),
    "target": Said(en="target", zh="译文"),
    "read": Said(en="target so far", zh="已写的译文"),
}


def export_page(kept: Kept, path: str, head: int, language: str) -> str:
    """All heads of a site, or one of them, with their tokens."""
    weights = kept.weights(path)
    if head >= weights.shape[0]:
        raise MissingError(f"{path} has {weights.shape[0]} heads, counted from 0; there is no head {head}.")
    site = next(site for site in kept.message.sites if site.path == path)
    sides = {side.name: side.tokens for side in kept.message.sides}
    panels = choose_panels(
        weights[None].cpu(),
        None,
        row=0,
        heads="each" if head < 0 else [head],
        query_tokens=sides[site.queries],
        key_tokens=sides[site.keys][: weights.shape[-1]],
    )
    rows, columns = (getattr(AXES[name], language) for name in (site.queries, site.keys))
    return Page(Picture.of(panels, (rows, columns))).html()
