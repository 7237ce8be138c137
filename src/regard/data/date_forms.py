"""How a date is written: a pattern of the Unicode CLDR, filled in from tables, with the place of every field.

    EEEE, MMMM d, y   ->   Tuesday, March 5, 2024      weekday 0-7, month 9-14, day 15-16, year 18-22

Patterns: https://www.unicode.org/reports/tr35/tr35-dates.html#Date_Field_Symbol_Table
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date

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
