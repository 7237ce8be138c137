"""Synthetic pairs of dates in natural languages, from the patterns of the Unicode CLDR, with the true alignment.

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
from regard.contracts import Description, Title
from regard.data.corpora.base import draw_from, random_below
from regard.data.corpora.descriptions import language_name, languages_name
from regard.data.text.pairs import Pair

YEARS = range(1900, 2100)
DIGITS = {"latn": "0123456789", "arab": "٠١٢٣٤٥٦٧٨٩"}

DateField = tuple[int, str]
"""The number of a date in a text, and the name of a field of it."""

# quoted text, a run of one letter, or anything else
_PART = re.compile(r"'(?P<quoted>[^']*)'|(?P<field>(?P<letter>[A-Za-z])(?P=letter)*)|(?P<plain>[^A-Za-z']+)")
_NAMES = {"y": "year", "M": "month", "L": "month", "d": "day", "E": "weekday", "c": "weekday"}


@dataclass(frozen=True)
class DatePattern:
    """The fields of a date in written order, each with the table of its texts; a field without a name is constant."""

    parts: tuple[tuple[str, Sequence[str]], ...]

    @property
    def fields(self) -> tuple[str, ...]:
        """The names of the fields in written order."""
        return tuple(name for name, _ in self.parts if name)


@dataclass(frozen=True)
class DateText:
    """A text, and the characters [start, end) of its fields."""

    text: str
    spans: Mapping[DateField, tuple[int, int]]


def parse_pattern(pattern: str, names: Mapping[str, Sequence[str]], numbering: str) -> DatePattern:
    """Parse a CLDR pattern; `names` maps MMM, MMMM, EEEE .. to names of months and weekdays."""
    parts: list[tuple[str, Sequence[str]]] = []
    for match in _PART.finditer(pattern):
        field = match["field"]
        if field is None:
            # two quotes without text between them are an apostrophe
            parts.append(("", [normalize_spaces(match["plain"] or match["quoted"] or "'")]))
            continue
        # a year of two digits would not determine the date
        if field[0] not in _NAMES or field == "yy":
            raise ValueError(f"the date pattern {pattern!r} has the field {field!r}, which is not supported.")
        # weekdays are names at every width, months are numbers up to a width of two
        table = names["EEE" if field == "E" else field] if field[0] in "Ec" or len(field) > 2 else ()
        parts.append((_NAMES[field[0]], table if table else numbers(len(field), numbering)))
    return DatePattern(tuple(parts))


def numbers(width: int, numbering: str) -> list[str]:
    """The numbers from 0 to the last year as texts, padded with zeros, in the digits of a numbering system."""
    digits = str.maketrans(DIGITS["latn"], DIGITS[numbering])
    # from 0, so that the number itself is the index; years are the largest
    return [f"{number:0{width}d}".translate(digits) for number in range(YEARS.stop)]


def normalize_spaces(text: str) -> str:
    """Replace all kinds of spaces by a plain one, and remove marks of the writing direction."""
    # marks of direction have no width and would be tokens of their own
    return re.sub(r"[\u200e\u200f\u061c]", "", re.sub(r"\s", " ", text))


def write_dates(pattern: DatePattern, dates: Sequence[date], separators: Sequence[str]) -> DateText:
    """Write dates by a pattern, with the separators between them."""
    pieces: list[str] = []
    spans: dict[DateField, tuple[int, int]] = {}
    start = 0
    for number, day in enumerate(dates):
        # constant parts have one text, at index 0
        values = {"": 0, "year": day.year, "month": day.month, "day": day.day, "weekday": day.weekday()}
        if number:
            pieces.append(separators[number - 1])
            # positions are counted in characters of the joined text, which the true alignment refers to
            start += len(pieces[-1])
        for name, table in pattern.parts:
            piece = table[values[name]]
            if name:
                # by number too, as every date of a list has the same fields
                spans[number, name] = (start, start + len(piece))
            pieces.append(piece)
            start += len(piece)
    return DateText("".join(pieces), spans)


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
"""The locales of a language; as a target it is written by the first one."""

FIRST = date(YEARS.start, 1, 1)
NUM_DAYS = (date(YEARS.stop - 1, 12, 31) - FIRST).days + 1


@dataclass(frozen=True)
class DateLocale:
    """The patterns of a locale for dates, and its separators for lists and ranges."""

    patterns: Mapping[str, DatePattern]
    pair: str
    start: str
    middle: str
    end: str
    between: str

    def separators(self, count: int, ranged: bool) -> list[str]:
        """The separators between `count` dates."""
        if ranged:
            return [self.between]
        # three or more: start, middle and end are the separators of CLDR's list patterns
        return [self.pair] if count == 2 else [self.start, *[self.middle] * (count - 3), self.end]


@dataclass(frozen=True)
class DateContent:
    """The meaning of a text: a list of dates, or a range from the first to the second."""

    dates: tuple[date, ...]
    ranged: bool

    @property
    def key(self) -> str:
        """The key of the split: the dates, independent of language and format."""
        return " ".join(day.isoformat() for day in self.dates)


@dataclass(frozen=True, kw_only=True)
class Dates:
    """Dates from one or several languages ("en,fr,de" or "all") to one language or "iso".

    Formats are uniformly distributed.
    """

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
        """The names of the source languages."""
        return tuple(LOCALES) if self.source == "all" else tuple(self.source.split(","))

    @property
    def description(self) -> Description:
        """Dates of some languages, and how they are written in another."""
        source, target = languages_name(self.sources), language_name(self.target)
        first, last = YEARS[0], YEARS[-1]
        several = self.max_dates > 1
        return Description(
            reads=Title(
                en=f"dates in {source.en} from {first} to {last}" + f", up to {self.max_dates} in a text" * several,
                zh=f"{first} 年至 {last} 年的{source.zh}日期" + f"，每段文本最多 {self.max_dates} 个" * several,
            ),
            writes=Title(en="the dates as 1969-07-20", zh="形如 1969-07-20 的日期")
            if self.target == ISO
            else Title(en=f"the dates in {target.en}", zh=f"{target.zh}日期"),
            source_language=self.source,
            target_language=self.target,
        )

    def pairs(self, count: int, *, split: str = "train", seed: int = 0) -> list[Pair]:
        """`count` pairs; equal arguments give equal pairs, and a content occurs in one split only."""
        sources = [tuple(_load_locale(locale) for locale in LOCALES[name]) for name in self.sources]
        target = _iso() if self.target == ISO else _load_locale(LOCALES[self.target][0])
        formats = self.formats.split(",")
        pairs = []
        # generated without end, so `islice` determines the number
        for rng, content in islice(draw_from(split, seed, self._draw, lambda content: content.key), count):
            # the order of the draws is part of the data set: another order gives other pairs
            locales = sources[random_below(rng, len(sources))]
            locale = locales[random_below(rng, len(locales))]
            pairs.append(_pair(content, locale, target, formats[random_below(rng, len(formats))]))
        return pairs

    def _draw(self, rng: random.Random) -> DateContent:
        count = 1 + random_below(rng, self.max_dates)
        dates = [FIRST + timedelta(days=random_below(rng, NUM_DAYS)) for _ in range(count)]
        ranged = count == 2 and random_below(rng, 2) == 1 and dates[0] != dates[1]
        # a range is sorted, and its two dates differ; in a list dates keep their random order
        return DateContent(tuple(sorted(dates) if ranged else dates), ranged)


def _pair(content: DateContent, source: DateLocale, target: DateLocale, kind: str) -> Pair:
    dates, count = content.dates, len(content.dates)
    pattern = source.patterns[kind]
    source_text = write_dates(pattern, dates, source.separators(count, content.ranged))
    # the target has a weekday only if the source has one, so that the source determines it
    target_pattern = target.patterns["full" if "weekday" in pattern.fields else "long"]
    target_text = write_dates(target_pattern, dates, target.separators(count, content.ranged))
    # a field that the target lacks, such as the weekday, has no alignment
    spans = tuple(
        (*span, *target_text.spans[field]) for field, span in source_text.spans.items() if field in target_text.spans
    )
    suffix = " range" if content.ranged else f" list of {count}" if count > 1 else ""
    return Pair(source_text.text, target_text.text, spans, kind + suffix)


@lru_cache
def _iso() -> DateLocale:
    """ISO 8601: 2024-03-05, a range with a slash."""
    two_digits, dash = numbers(2, "latn"), ("", ["-"])
    pattern = DatePattern((("year", two_digits), dash, ("month", two_digits), dash, ("day", two_digits)))
    return DateLocale({"full": pattern, "long": pattern}, ", ", ", ", ", ", ", ", "/")


@lru_cache
def _load_locale(name: str) -> DateLocale:
    """The patterns and separators of a locale from babel."""
    try:
        # a late import: only dates need babel
        from babel import Locale
    except ImportError:
        raise ImportError("Dates needs the babel package. Install it with: pip install babel") from None
    locale = Locale.parse(name)
    patterns = {width: locale.date_formats[width].pattern for width in FORMATS[:3]}
    patterns["abbreviated"] = locale.datetime_skeletons["yMMMEd"].pattern
    # digits without a table here are written in Latin ones
    numbering = locale.default_numbering_system if locale.default_numbering_system in DIGITS else "latn"
    names = _names(locale)
    joins = {part: _separator(locale.list_patterns["standard"][part]) for part in ("2", "start", "middle", "end")}
    return DateLocale(
        patterns={width: parse_pattern(pattern, names, numbering) for width, pattern in patterns.items()},
        pair=joins["2"],
        start=joins["start"],
        middle=joins["middle"],
        end=joins["end"],
        between=_separator(locale.interval_formats[None]),
    )


def _names(locale: Any) -> dict[str, list[str]]:
    """Names of months (from index 1) and weekdays (Monday first), by the field of the pattern."""
    names = {}
    for width, name in ((3, "abbreviated"), (4, "wide")):
        for months, days, use in (("M", "E", "format"), ("L", "c", "stand-alone")):
            names[months * width] = [
                # index 0 is empty: months are numbered from 1
                "",
                *(normalize_spaces(locale.months[use][name][number]) for number in range(1, 13)),
            ]
            names[days * width] = [normalize_spaces(locale.days[use][name][number]) for number in range(7)]
    return names


def _separator(pattern: str) -> str:
    """The text between {0} and {1}."""
    return normalize_spaces(pattern.removeprefix("{0}").removesuffix("{1}"))
