"""Heat maps as one HTML page: no network, no other file, hover for the number.

Weights travel as 16-bit steps of the colour scale in base64, 2.7 bytes each: the number one reads is right to
1/131068 of the scale. The page itself is page.html, beside this file.
"""

import base64
import html
import json
from importlib.resources import files
from typing import Any

import torch
from jaxtyping import Float
from torch import Tensor

from regard.display.picture import VIRIDIS, Panel, Picture

STEPS = 65534
NOT_A_NUMBER = 65535


class Page:
    """The page of a picture; a notebook shows it by itself."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture

    def html(self) -> str:
        """The whole page."""
        # a token may hold </script>; as JSON may spell any letter by its number, none needs to be <
        data = json.dumps(payload(self.picture), ensure_ascii=False, separators=(",", ":"))
        for letter in "<>&\u2028\u2029":
            data = data.replace(letter, f"\\u{ord(letter):04x}")
        titles = dict.fromkeys(panel.path for panel in self.picture.panels if panel.path)
        template = files("regard.display").joinpath("page.html").read_text(encoding="utf-8")
        title = html.escape(", ".join(list(titles)[:3]) or "attention")
        rows, columns = map(html.escape, self.picture.axes)
        template = template.replace("{{title}}", title).replace("{{rows}}", rows).replace("{{columns}}", columns)
        return template.replace("{{data}}", data)

    def _repr_html_(self) -> str:
        """For a notebook: the page in a frame of its own, so that neither disturbs the other."""
        rows = max(len(panel.query_tokens) for panel in self.picture.panels)
        height = min(max(rows * 24 + 330, 420), 900)
        style = f"width:100%;height:{height}px;border:0"
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(self.html())}"></iframe>'


def payload(picture: Picture) -> dict[str, Any]:
    """What the page's script reads; lists of tokens are kept once however many panels share them."""
    labels: dict[tuple[str, ...], int] = {}

    def kept(tokens: tuple[str, ...]) -> int:
        return labels.setdefault(tokens, len(labels))

    panels = [
        {
            "path": panel.path,
            "head": panel.head,
            "queries": kept(panel.query_tokens),
            "keys": kept(panel.key_tokens),
            "weights": encode(panel, picture),
        }
        for panel in picture.panels
    ]
    scale = {"low": picture.low, "high": picture.high, "steps": STEPS, "colours": VIRIDIS}
    return {"scale": scale, "labels": list(labels), "panels": panels}


def encode(panel: Panel, picture: Picture) -> str:
    """Weights as steps from low to high, two bytes each, low byte first."""
    return base64.b64encode(steps(panel.weights, picture).numpy().astype("<u2").tobytes()).decode()


def steps(weights: Float[Tensor, "Q K"], picture: Picture) -> Tensor:
    """Each weight as a whole number of steps."""
    share = (weights.double() - picture.low) / (picture.high - picture.low)
    counted = (share * STEPS).round().clamp(0, STEPS)
    return torch.where(weights.isfinite(), counted, NOT_A_NUMBER).long()
