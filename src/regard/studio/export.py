"""Weights in single precision, as bytes, as thumbnails, and as a self-contained HTML file.

What the page prints comes from the numbers in single precision; bytes, 256 steps, are for colours.
"""

import torch
from jaxtyping import Float, UInt8
from torch import Tensor

from regard.contracts import AlignmentPanel
from regard.display import Page, Panel, Picture, visible
from regard.serving import MissingError
from regard.studio.inspection_cache import CachedInspection
from regard.studio.schema.base import LocalizedText

HEAD = LocalizedText(en="head {}", zh="头 {}")


def picture(weights: Float[Tensor, "Q K"]) -> tuple[bytes, float]:
    """One byte per weight, query by query, and the weight of byte 255."""
    # an empty tensor has no maximum
    high = float(weights.max()) if weights.numel() else 0.0
    # weights of 0 stay 0; clamped, because a larger value would wrap around in one byte
    steps = (weights * (255 / high if high > 0 else 0.0)).round().clamp(0, 255)
    return steps.to("cpu", torch.uint8).numpy().tobytes(), high


def exact_rows(weights: Float[Tensor, "Q K"], first: int, count: int) -> bytes:
    """The weights of `count` queries in single precision, little-endian."""
    if first + count > weights.shape[0]:
        raise MissingError(
            f"there are {weights.shape[0]} queries, counted from 0; there is no query {first + count - 1}."
        )
    # little-endian on every machine
    return weights[first : first + count].to("cpu", torch.float32).numpy().astype("<f4").tobytes()


def thumbnail(weights: Float[Tensor, "Q K"], size: int) -> UInt8[Tensor, "size size"]:
    """A head max-pooled to this size, scaled so that 255 is its largest weight."""
    if not weights.numel():
        return torch.zeros(size, size, dtype=torch.uint8)
    # the maximum, because a mean would make single peaks invisible
    # (1, queries, keys): pooling needs a dimension of channels
    pooled = torch.nn.functional.adaptive_max_pool2d(weights[None].float(), size)[0]
    # a head without any weight is scaled by a finite number
    return (pooled * (255 / pooled.max().clamp_min(1e-30))).round().to(torch.uint8)


def export_page(entry: CachedInspection, path: str, head: int, language: str) -> str:
    """All heads of a site, or one of them, as the HTML page that `regard.show` writes."""
    weights = entry.weights(path).cpu()
    count = weights.shape[0]
    if head >= count:
        raise MissingError(f"{path} has {count} heads, counted from 0; there is no head {head}.")
    query_axis, key_axis = (entry.inspection.axis(name) for name in axes_of(entry, path))
    tokens = {axis.name: tuple(visible(label) for label in axis.labels) for axis in (query_axis, key_axis)}
    label = getattr(HEAD, language)
    panels = tuple(
        Panel(
            path=path,
            head=label.format(number) if count > 1 else "",
            weights=weights[number],
            query_tokens=tokens[query_axis.name],
            # the weights may have fewer keys than the axis
            key_tokens=tokens[key_axis.name][: weights.shape[-1]],
        )
        # -1 is all heads
        for number in (range(count) if head < 0 else (head,))
    )
    titles = (getattr(query_axis.title, language), getattr(key_axis.title, language))
    inspection = entry.inspection
    # the input and, if there is one, the output
    title = " → ".join(text for text in (inspection.input, inspection.output) if text)
    return Page(Picture.of(panels, titles, title), language).html()


def axes_of(entry: CachedInspection, path: str) -> tuple[str, str]:
    """The names of the query and key axes of a site or of the model's alignment."""
    # the model's alignment is offered as a site, but was not recorded
    panel: AlignmentPanel | None = entry.inspection.panel(AlignmentPanel)
    if panel is not None and path == panel.name:
        return panel.query_axis, panel.key_axis
    site = entry.inspection.site(path)
    assert site is not None
    return site.query_axis, site.key_axis
