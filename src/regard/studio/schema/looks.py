"""A look: one translation with every attention that it took."""

from typing import Literal

from regard.studio.schema.base import Kind, Message, Name, SideName, Text


class LookRequest(Message):
    """Read a text and keep every attention that it took.

    A translator also answers it; with an answer given, the look is at how that comes about.
    """

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
    """All that one reading of a text looked at, kept under `id` for a while; asked again, it gets the same id.

    A language model answers nothing and has one side, `read`; the answer of a classifier is the class, and its rows of
    attention are the side `target`.
    """

    id: str
    model: str
    kind: Kind
    text: str
    answer: str
    given: bool
    log_prob: float
    num_dropped: int
    sides: list[Side]
    sites: list[Site]
    milliseconds: float
    milliseconds_per_token: float | None
