"""Heat maps as one self-contained HTML page, with the exact number on hover.

Weights are stored in single precision in base64, 5.3 bytes each, so that every digit of the page is that of the weight.
The template is page.html in this folder.
"""

import base64
import html
import json
from importlib.resources import files
from typing import Any

import torch

from regard._utils import check_name
from regard.display.picture import VIRIDIS, Panel, Picture

TEXTS = {
    "en": {
        "module": "attention module",
        "heads": "heads",
        "hint": "Point at a cell, or move with the arrow keys. Rows: {rows}, columns: {columns}.",
        "script": "This page draws attention weights and needs its own script to run.",
        "mean": "mean",
        "none": "none",
        "attention": "attention",
        "weights": "weights",
        "query": "query",
        "key": "key",
        "most": "largest weight on",
    },
    "zh": {
        "module": "注意力模块",
        "heads": "注意力头",
        "hint": "指向一个单元格，或用方向键移动。行：{rows}，列：{columns}。",
        "script": "本页绘制注意力权重，需要运行其自带的脚本。",
        "mean": "平均",
        "none": "无",
        "attention": "注意力",
        "weights": "权重",
        "query": "查询",
        "key": "键",
        "most": "最大权重在",
    },
}
"""Texts of the page and of its script."""


class Page:
    """The page of a picture, in English (en) or Chinese (zh); a notebook displays it."""

    def __init__(self, picture: Picture, language: str = "en") -> None:
        check_name(language, TEXTS, "language")
        self.picture = picture
        self.language = language

    def html(self) -> str:
        texts = TEXTS[self.language]
        # a token may contain </script>: escaped as \u003c, no character of the JSON is <
        data = json.dumps(payload(self.picture) | {"texts": texts}, ensure_ascii=False, separators=(",", ":"))
        # U+2028 and U+2029 end a line in JavaScript before 2019, also within a string
        for letter in "<>&\u2028\u2029":
            data = data.replace(letter, f"\\u{ord(letter):04x}")
        # a dict is an ordered set of paths
        titles = dict.fromkeys(panel.path for panel in self.picture.panels if panel.path)
        rows, columns = self.picture.axes
        fields = {
            "title": self.picture.title or ", ".join(list(titles)[:3]) or texts["attention"],
            "lang": self.language,
            **{name: texts[name].format(rows=rows, columns=columns) for name in ("module", "heads", "hint", "script")},
        }
        template = files("regard.display").joinpath("page.html").read_text(encoding="utf-8")
        # these texts are HTML-escaped; the JSON is inserted last and unescaped
        for name, text in fields.items():
            template = template.replace(f"{{{{{name}}}}}", html.escape(text))
        return template.replace("{{data}}", data)

    def _repr_html_(self) -> str:
        """The page in a frame, so that its styles and scripts are separate from the notebook's."""
        rows = max(len(panel.query_tokens) for panel in self.picture.panels)
        height = min(max(rows * 24 + 330, 420), 900)
        style = f"width:100%;height:{height}px;border:0"
        # scripts may run, but in an origin of their own: the page cannot reach the notebook
        return f'<iframe sandbox="allow-scripts" style="{style}" srcdoc="{html.escape(self.html())}"></iframe>'


def payload(picture: Picture) -> dict[str, Any]:
    """The data of the page's script; token lists that several panels share are stored once."""
    labels: dict[tuple[str, ...], int] = {}

    def index_of(tokens: tuple[str, ...]) -> int:
        # the index of new tokens is the number of lists so far
        return labels.setdefault(tokens, len(labels))

    panels = [
        {
            "path": panel.path,
            "head": panel.head,
            "queries": index_of(panel.query_tokens),
            "keys": index_of(panel.key_tokens),
            "weights": encode(panel),
        }
        for panel in picture.panels
    ]
    scale = {"low": picture.low, "high": picture.high, "colours": VIRIDIS}
    return {"title": picture.title, "scale": scale, "labels": list(labels), "panels": panels}


def encode(panel: Panel) -> str:
    """Weights in single precision, four bytes each, the low byte first; what is not finite is NaN."""
    finite = panel.weights.where(panel.weights.isfinite(), torch.nan)
    # little endian on every machine, as the script reads it
    return base64.b64encode(finite.to(torch.float32).numpy().astype("<f4").tobytes()).decode()
