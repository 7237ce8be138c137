"""Synthetic corpora: unlimited, deterministic, with one target per source, disjoint splits and true alignments."""

import re
import subprocess
import sys
from datetime import date

import pytest

from regard.data.corpora import DATASETS, SPLITS, Copy, Dates, Reverse, split_of
from regard.data.corpora.dates import FORMATS, LOCALES, _load_locale, normalize_spaces, parse_pattern, write_dates

SETS = {name: build() for name, build in DATASETS.items()} | {"long dates": Dates(source="all", max_dates=4)}


@pytest.mark.parametrize("name", SETS)
def test_synthetic_pairs_are_deterministic_and_splits_disjoint(name):
    pairs_of_split = {split: SETS[name].pairs(300, split=split) for split in SPLITS}
    assert pairs_of_split["train"] == SETS[name].pairs(300)
    assert pairs_of_split["train"][:50] == SETS[name].pairs(50)
    assert pairs_of_split["train"] != SETS[name].pairs(300, seed=1)
    answers = [{pair.target for pair in pairs} for pairs in pairs_of_split.values()]
    assert not answers[0] & answers[1] and not answers[0] & answers[2] and not answers[1] & answers[2]
    assert all(
        0 <= i < len(pair.source) and 0 <= j < len(pair.target)
        for pair in pairs_of_split["test"]
        for i, j in pair.links
    )


def test_copy_and_reverse():
    for pair in Reverse(min_length=1).pairs(50):
        assert pair.target == pair.source[::-1]
        assert all(pair.source[i] == pair.target[j] for i, j in pair.links)
        assert len(pair.links) == len(pair.source.split())
    assert all(pair.source == pair.target for pair in Copy().pairs(50))
    lengths = {len(pair.source.split()) for pair in Copy(min_length=2, max_length=4).pairs(200)}
    assert lengths == {2, 3, 4}


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"alphabet": "aa"}, "the alphabet 'aa'"),
        ({"alphabet": "a b"}, "the alphabet 'a b'"),
        ({"alphabet": ""}, "the alphabet ''"),
        ({"min_length": 3, "max_length": 2}, "lengths from 3 to 2 are empty"),
    ],
)
def test_wrong_letters(settings, message):
    with pytest.raises(ValueError, match=message):
        Copy(**settings)


def test_a_set_too_small_for_a_split_raises_an_error():
    small = Copy(alphabet="a", min_length=1, max_length=1)
    absent = next(split for split in SPLITS if split != split_of("a"))
    with pytest.raises(ValueError, match=f"gave none for {absent}"):
        small.pairs(1, split=absent)
    with pytest.raises(ValueError, match="there is no split 'tset'; the nearest is 'test'"):
        small.pairs(1, split="tset")


def write_date(locale, form, day=date(2024, 3, 5)):
    return write_dates(_load_locale(locale).patterns[form], [day], []).text


def test_dates_have_their_written_formats():
    assert write_date("en", "full") == "Tuesday, March 5, 2024"
    assert write_date("en_GB", "long") == "5 March 2024"
    assert write_date("en", "medium") == "Mar 5, 2024"
    assert write_date("zh", "full") == "2024年3月5日星期二"
    assert write_date("zh", "long") == "2024年3月5日"
    assert write_date("de", "full") == "Dienstag, 5. März 2024"
    assert write_date("es", "long") == "5 de marzo de 2024"
    assert write_date("ja", "full") == "2024年3月5日火曜日"
    assert write_date("ru", "long") == "5 марта 2024 г."
    assert write_date("ar_EG", "long") == "٥ مارس ٢٠٢٤"


@pytest.mark.parametrize("way", [way for ways in LOCALES.values() for way in ways])
def test_dates_equal_those_of_babel(way):
    babel = pytest.importorskip("babel")
    dates = pytest.importorskip("babel.dates")
    digits = str.maketrans("٠١٢٣٤٥٦٧٨٩", "0123456789")
    for day in (date(1900, 1, 1), date(2024, 2, 29), date(2099, 12, 31), *(date(2023, m, m + 9) for m in range(1, 13))):
        for form in FORMATS[:3]:
            expected = normalize_spaces(dates.format_date(day, form, locale=way)).translate(digits)
            assert write_date(way, form, day).translate(digits) == expected
        pattern = babel.Locale.parse(way).datetime_skeletons["yMMMEd"]
        expected = normalize_spaces(dates.format_date(day, pattern, locale=way)).translate(digits)
        assert write_date(way, "abbreviated", day).translate(digits) == expected


@pytest.mark.parametrize("way", [way for ways in LOCALES.values() for way in ways])
def test_no_locale_has_an_ambiguous_order_or_unusual_spaces(way):
    writing = _load_locale(way)
    for form in writing.patterns.values():
        fields = form.fields
        month = next(table for name, table in form.parts if name == "month")
        numeric = not any(letter.isalpha() for letter in month[3])
        assert {"year", "month", "day"} <= set(fields)
        assert not numeric or fields[0] == "year" or fields.index("day") < fields.index("month")
    assert ("weekday" in writing.patterns["full"].fields) and ("weekday" not in writing.patterns["long"].fields)
    joins = "".join((writing.pair, writing.start, writing.middle, writing.end, writing.between))
    assert not re.search(r"[{}\u2009\u202f\u00a0]", joins)
    assert writing.between not in (writing.pair, writing.start, writing.middle, writing.end)


@pytest.mark.parametrize("target", ["zh", "iso", "en"])
def test_a_source_has_one_target(target):
    answers = {}
    for pair in Dates(source="all", target=target, max_dates=2).pairs(20_000):
        assert answers.setdefault(pair.source, pair.target) == pair.target


def test_names_mean_the_same_month_and_weekday_in_every_locale():
    values = {}
    for ways in LOCALES.values():
        for way in ways:
            for form in _load_locale(way).patterns.values():
                for name, table in form.parts:
                    if name in ("month", "weekday"):
                        for value in range(1, 13) if name == "month" else range(7):
                            key = (name, table[value])
                            if any(letter.isalpha() for letter in table[value]):
                                assert values.setdefault(key, value) == value, (way, key)


def test_the_target_has_the_fields_of_the_source():
    for pair in Dates(max_dates=3).pairs(500):
        assert ("星期" in pair.target) == pair.kind.startswith(("full", "abbreviated"))
        assert re.findall(r"\d{4}", pair.target) == re.findall(r"\d{4}", pair.source)
        fields = {(pair.source[a:b], pair.target[c:d]) for a, b, c, d in pair.spans}
        assert any(source == target and len(source) == 4 for source, target in fields)
    iso = Dates(target="iso", formats="full").pairs(20)
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d", pair.target) and len(pair.spans) == 3 for pair in iso)


def test_lists_and_ranges():
    corpus_pairs = Dates(max_dates=3, formats="long").pairs(400)
    kinds = {pair.kind: pair for pair in corpus_pairs}
    assert set(kinds) == {"long", "long range", "long list of 2", "long list of 3"}
    assert " – " in kinds["long range"].source and " – " in kinds["long range"].target
    assert " and " in kinds["long list of 2"].source and "和" in kinds["long list of 2"].target
    assert "、" in kinds["long list of 3"].target and len(kinds["long list of 3"].spans) == 9
    for pair in Dates(max_dates=2, target="iso").pairs(200):
        if pair.kind.endswith("range"):
            first, last = pair.target.split("/")
            assert first < last


def test_a_pattern_that_is_not_known_is_refused():
    with pytest.raises(ValueError, match="has the field 'G', which is not supported"):
        parse_pattern("d MMMM y G", {"MMMM": [""] * 13}, "latn")
    assert write_dates(parse_pattern("d 'de''x' y", {}, "latn"), [date(2024, 3, 5)], []).text.startswith("5 de")


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"source": "en,frr"}, "there is no locale 'frr'; the nearest is 'fr'"),
        ({"target": "isso"}, "there is no locale 'isso'; the nearest is 'iso'"),
        ({"formats": "ful"}, "there is no date format 'ful'; the nearest is 'full'"),
        ({"max_dates": 0}, "max_dates is 0"),
    ],
)
def test_wrong_dates(settings, message):
    with pytest.raises(ValueError, match=message):
        Dates(**settings)


def test_babel_loads_a_locale_once(monkeypatch):
    """A call for every date would take most of the time."""
    babel, names = pytest.importorskip("babel"), []
    parse = babel.Locale.parse
    monkeypatch.setattr(babel.Locale, "parse", lambda name, *more: names.append(name) or parse(name, *more))
    _load_locale.cache_clear()
    Dates(source="all").pairs(1000)
    assert {"en", "de", "zh"} <= set(names) and max(map(names.count, LOCALES)) == 1


def test_without_babel_only_dates_fail_with_its_name():
    code = (
        "import sys; sys.modules['babel'] = None\n"
        "from regard.data.corpora import DATASETS\n"
        "assert DATASETS['reverse']().pairs(1)\n"
        "try: DATASETS['dates']().pairs(1)\n"
        "except ImportError as error: print(error)"
    )
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "Dates needs the babel package. Install it with: pip install babel"
