"""A look: one translation with every attention that it took."""

from typing import Literal

from regard.studio.schema.base import Message, Name, SideName, Text


class LookRequest(Message):
    """Translate a text and keep every attention that it took; with an answer given, look at how it comes about."""

    model: Name
    text: Text
    answer: Text | None = None


class Piece(Message):
    """Raw tokens first .. last that make whole characters together; a mark such as <eos> is no text."""

    text: str
    first: int
    last: int
    mark: bool


class Side(Message):
    """Tokens in a row."""

    name: SideName
    tokens: list[str]
    pieces: list[Piece]


SiteKind = Literal["alignment", "source", "target", "cross"]


class Site(Message):
    """One attention inside the system, by its module path; `alignment` is what the system itself reports."""

    path: str
    layer: str
    kind: SiteKind
    heads: int
    queries: SideName
    keys: SideName
    score: str | None
    align: str | None


class Look(Message):
    """All that one translation looked at, kept under `id` for a while; asked again, it gets the same id."""

    id: str
    model: str
    text: str
    answer: str
    given: bool
    log_prob: float
    num_dropped: int
    sides: list[Side]
    sites: list[Site]
    milliseconds: float
    milliseconds_per_token: float | None
