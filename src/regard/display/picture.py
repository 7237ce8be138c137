"""Panels of weights with their tokens, on one colour scale: what the terminal, figures and pages draw.

Shapes: Q queries, K keys.
"""

import math
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

VIRIDIS = (
    "#440154",
    "#482475",
    "#414487",
    "#355f8d",
    "#2a788e",
    "#21918c",
    "#22a884",
    "#44bf70",
    "#7ad151",
    "#bddf26",
    "#fde725",
)
"""Every tenth colour of matplotlib's viridis, which is perceptually uniform, also in grey and for the colour-blind."""


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One heat map: each row is a query, each column a key."""

    path: str
    head: str
    weights: Float[Tensor, "Q K"]
    query_tokens: tuple[str, ...]
    key_tokens: tuple[str, ...]

    @property
    def title(self) -> str:
        """Module path and head, if present."""
        return " ".join(part for part in (self.path, self.head) if part)


@dataclass(frozen=True, kw_only=True)
class Picture:
    """Panels that share a colour scale, so that equal colours are equal weights."""

    panels: tuple[Panel, ...]
    low: float
    high: float
    axes: tuple[str, str] = ("queries", "keys")
    """Names of the rows and of the columns."""
    title: str = ""
    """What is attended to, such as a sentence with its translation; '' for none."""

    @classmethod
    def of(cls, panels: tuple[Panel, ...], axes: tuple[str, str] = ("queries", "keys"), title: str = "") -> "Picture":
        """A picture whose scale goes from 0, or the smallest weight if negative, to the largest weight."""
        # masked scores are -inf and would make every other difference invisible
        finite = torch.cat([panel.weights[panel.weights.isfinite()] for panel in panels])
        low, high = (finite.amin().item(), finite.amax().item()) if finite.numel() else (0.0, 0.0)
        low = min(low, 0.0)
        # a constant map still needs a range, by which `share` divides
        return cls(panels=panels, low=low, high=high if high > low else low + 1.0, axes=axes, title=visible(title))

    def share(self, value: float) -> float:
        """The position of a number on the scale, from 0 to 1."""
        return min(max((value - self.low) / (self.high - self.low), 0.0), 1.0)


def colour(share: float) -> tuple[int, int, int]:
    """Red, green and blue at this position of the scale."""
    position = share * (len(VIRIDIS) - 1)
    # the last interval includes its right end, where share is 1
    below = min(math.floor(position), len(VIRIDIS) - 2)
    first, second = (bytes.fromhex(VIRIDIS[below + step][1:]) for step in (0, 1))
    red, green, blue = (round(a + (b - a) * (position - below)) for a, b in zip(first, second, strict=True))
    return red, green, blue


def visible(token: str) -> str:
    """A token with control characters escaped and lone spaces as ␣, so that it cannot move the cursor."""
    # ▁ is the space of tokenizers, which alone would be drawn as a bar
    if token and not token.strip(" ▁"):
        return "␣" * len(token)
    # escape sequences in a token could otherwise control the terminal
    return "".join(letter if letter.isprintable() else letter.encode("unicode_escape").decode() for letter in token)
