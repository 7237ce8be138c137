"""How a date is written: a pattern of the Unicode CLDR, filled in from tables, with the place of every field.

    EEEE, MMMM d, y   ->   Tuesday, March 5, 2024      weekday 0-7, month 9-14, day 15-16, year 18-22

Patterns: https://www.unicode.org/reports/tr35/tr35-dates.html#Date_Field_Symbol_Table
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from functools import lru_cache
from itertools import islice
from typing import Any

from regard._utils import check_name
from regard.data.corpora.base import below, draw_from
from regard.data.text.pairs import Pair

YEARS = range(1900, 2100)
DIGITS = {"latn": "0123456789", "arab": "٠١٢٣٤٥٦٧٨٩"}

Place = tuple[int, str]
"""Which date of a text, and which field of it."""

_PART = re.compile(r"'(?P<quoted>[^']*)'|(?P<field>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<plain>[^A-Za-z']+)")
_NAMES = {"y": "year", "M": "month", "L": "month", "d": "day", "E": "weekday", "c": "weekday"}


@dataclass(frozen=True)
class Form:
    """Fields in the order of writing, each with its table of texts; a field without a name is the same every time."""

    parts: tuple[tuple[str, Sequence[str]], ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of its fields, as they are written."""
        return tuple(name for name, _ in self.parts if name)


@dataclass(frozen=True)
class Written:
    """A text and where its fields stand in it, [start, end)."""

    text: str
    places: Mapping[Place, tuple[int, int]]


def parse_form(pattern: str, names: Mapping[str, Sequence[str]], numbering: str) -> Form:
    """A form from a CLDR pattern; `names` maps MMM, MMMM, EEEE .. to the names of months and weekdays."""
    parts: list[tuple[str, Sequence[str]]] = []
    for found in _PART.finditer(pattern):
        field = found["field"]
        if field is None:
            parts.append(("", [tidy(found["plain"] or found["quoted"] or "'")]))
            continue
        if field[0] not in _NAMES or field == "yy":
            raise ValueError(f"the date pattern {pattern!r} has the field {field!r}, which is not known here.")
        table = names["EEE" if field == "E" else field] if field[0] in "Ec" or len(field) > 2 else ()
        parts.append((_NAMES[field[0]], table if table else numbers(len(field), numbering)))
    return Form(tuple(parts))


def numbers(width: int, numbering: str) -> list[str]:
    """Numbers as texts, filled up with zeros to a width, in the digits of a numbering system."""
    digits = str.maketrans(DIGITS["latn"], DIGITS[numbering])
    return [f"{number:0{width}d}".translate(digits) for number in range(YEARS.stop)]


def tidy(text: str) -> str:
    """Every kind of space a plain one, and no marks for the writing direction."""
    return re.sub(r"[\u200e\u200f\u061c]", "", re.sub(r"\s", " ", text))


def write(form: Form, dates: Sequence[date], separators: Sequence[str]) -> Written:
    """These dates, one separator between each and the next."""
    pieces: list[str] = []
    places: dict[Place, tuple[int, int]] = {}
    start = 0
    for number, day in enumerate(dates):
        values = {"": 0, "year": day.year, "month": day.month, "day": day.day, "weekday": day.weekday()}
        if number:
            pieces.append(separators[number - 1])
            start += len(pieces[-1])
        for name, table in form.parts:
            piece = table[values[name]]
            if name:
                places[number, name] = (start, start + len(piece))
            pieces.append(piece)
            start += len(piece)
    return Written("".join(pieces), places)


FORMATS = ("full", "long", "medium", "abbreviated")
ISO = "iso"

LOCALES = {
    "en": ("en", "en_GB"),
    "zh": ("zh",),
    "zh_Hant": ("zh_Hant",),
    "ja": ("ja",),
    "ko": ("ko",),
    "fr": ("fr",),
    "de": ("de",),
    "es": ("es",),
    "it": ("it",),
    "pt": ("pt",),
    "nl": ("nl",),
    "sv": ("sv",),
    "pl": ("pl",),
    "ru": ("ru",),
    "uk": ("uk",),
    "tr": ("tr",),
    "ar": ("ar_EG",),
    "he": ("he",),
    "hi": ("hi",),
    "vi": ("vi",),
    "id": ("id",),
    "el": ("el",),
}
"""A language, and whose ways of writing it knows; as a target it is written the first way."""

FIRST = date(YEARS.start, 1, 1)
NUM_DAYS = (date(YEARS.stop - 1, 12, 31) - FIRST).days + 1


@dataclass(frozen=True)
class Writing:
    """How one locale writes dates, lists of them and ranges."""

    forms: Mapping[str, Form]
    pair: str
    start: str
    middle: str
    end: str
    between: str

    def separators(self, count: int, ranged: bool) -> list[str]:
        """What stands between this many dates."""
        if ranged:
            return [self.between]
        return [self.pair] if count == 2 else [self.start, *[self.middle] * (count - 3), self.end]


@dataclass(frozen=True)
class Content:
    """What a text is about: dates one after the other, or from the first to the second."""

    dates: tuple[date, ...]
    ranged: bool

    @property
    def key(self) -> str:
        """What the split is chosen by: the dates, however they are written."""
        return " ".join(day.isoformat() for day in self.dates)


@dataclass(frozen=True, kw_only=True)
class Dates:
    """From one locale or several ("en,fr,de" or "all") to one locale or "iso"; formats are drawn evenly."""

    source: str = "en"
    target: str = "zh"
    formats: str = ",".join(FORMATS)
    max_dates: int = 1

    def __post_init__(self) -> None:
        for name in self.sources:
            check_name(name, LOCALES, "locale")
        check_name(self.target, (*LOCALES, ISO), "locale")
        for name in self.formats.split(","):
            check_name(name, FORMATS, "date format")
        if self.max_dates < 1:
            raise ValueError(f"max_dates is {self.max_dates}. Give 1 or more.")

    @property
    def sources(self) -> tuple[str, ...]:
        """The source locales by name."""
        return tuple(LOCALES) if self.source == "all" else tuple(self.source.split(","))

    def pairs(self, count: int, *, split: str = "train", seed: int = 0) -> list[Pair]:
        """So many pairs; the same arguments give the same ones, and what they are about occurs in one split only."""
        sources = [tuple(_writing(way) for way in LOCALES[name]) for name in self.sources]
        target = _iso() if self.target == ISO else _writing(LOCALES[self.target][0])
        formats = self.formats.split(",")
        pairs = []
        for chance, content in islice(draw_from(split, seed, self._draw, lambda drawn: drawn.key), count):
            ways = sources[below(chance, len(sources))]
            pairs.append(_pair(content, ways[below(chance, len(ways))], target, formats[below(chance, len(formats))]))
        return pairs

    def _draw(self, chance: random.Random) -> Content:
        count = 1 + below(chance, self.max_dates)
        dates = [FIRST + timedelta(days=below(chance, NUM_DAYS)) for _ in range(count)]
        ranged = count == 2 and below(chance, 2) == 1 and dates[0] != dates[1]
        return Content(tuple(sorted(dates) if ranged else dates), ranged)


def _pair(content: Content, source: Writing, target: Writing, kind: str) -> Pair:
    dates, count = content.dates, len(content.dates)
    form = source.forms[kind]
    said = write(form, dates, source.separators(count, content.ranged))
    wanted = target.forms["full" if "weekday" in form.fields else "long"]
    meant = write(wanted, dates, target.separators(count, content.ranged))
    spans = tuple((*span, *meant.places[place]) for place, span in said.places.items() if place in meant.places)
    joined = " range" if content.ranged else f" list of {count}" if count > 1 else ""
    return Pair(said.text, meant.text, spans, kind + joined)


@lru_cache
def _iso() -> Writing:
    """ISO 8601: 2024-03-05, a range with a slash."""
    two, dash = numbers(2, "latn"), ("", ["-"])
    form = Form((("year", two), dash, ("month", two), dash, ("day", two)))
    return Writing({"full": form, "long": form}, ", ", ", ", ", ", ", ", "/")


@lru_cache
def _writing(locale: str) -> Writing:
    """What babel knows about a locale."""
    try:
        from babel import Locale
    except ImportError:
        raise ImportError("Dates needs the babel package. Install it with: pip install babel") from None
    known = Locale.parse(locale)
    patterns = {name: known.date_formats[name].pattern for name in FORMATS[:3]}
    patterns["abbreviated"] = known.datetime_skeletons["yMMMEd"].pattern
    numbering = known.default_numbering_system if known.default_numbering_system in DIGITS else "latn"
    names = _names(known)
    joins = {name: _between(known.list_patterns["standard"][name]) for name in ("2", "start", "middle", "end")}
    return Writing(
        forms={name: parse_form(pattern, names, numbering) for name, pattern in patterns.items()},
        pair=joins["2"],
        start=joins["start"],
        middle=joins["middle"],
        end=joins["end"],
        between=_between(known.interval_formats[None]),
    )


def _names(locale: Any) -> dict[str, list[str]]:
    """Names of months (from place 1) and weekdays (Monday first), by the field that asks for them."""
    names = {}
    for width, name in ((3, "abbreviated"), (4, "wide")):
        for months, days, use in (("M", "E", "format"), ("L", "c", "stand-alone")):
            names[months * width] = ["", *(tidy(locale.months[use][name][number]) for number in range(1, 13))]
            names[days * width] = [tidy(locale.days[use][name][number]) for number in range(7)]
    return names


def _between(pattern: str) -> str:
    """What stands between {0} and {1}."""
    return tidy(pattern.removeprefix("{0}").removesuffix("{1}"))
