import pytest

from regard.metrics import (
    Gold,
    alignment_error_rate,
    alignment_quality,
    read_gold,
    read_numbered_gold,
    read_pharaoh,
    swap,
)

# as published by their authors, in percent: forward, reverse, grow-diagonal
PUBLISHED = {
    ("fastalign", "deen"): (28.5, 32.0, 27.0),
    ("fastalign", "enfr"): (16.4, 15.9, 10.5),
    ("fastalign", "roen"): (33.8, 35.6, 32.1),
    ("giza", "deen"): (21.0, 23.1, 21.4),
    ("giza", "enfr"): (8.0, 9.8, 5.9),
    ("giza", "roen"): (28.7, 32.2, 27.9),
}
CASES = {
    f"{system}.{pair}{kind}.talp": rate
    for (system, pair), rates in PUBLISHED.items()
    for kind, rate in zip(("", ".reverse", ".grow-diagonal"), rates, strict=True)
} | {
    "giza.deen.grow-diagonal-final.talp": 20.6,
    "awesome-align.enfr.out": 4.1,
    "awesome-align.jaen.out": 37.4,
    "awesome-align.roen.out": 20.7,
    "awesome-align.zhen.out": 13.3,
}


def read_numbered(path):
    return read_numbered_gold(path, count=2)


@pytest.mark.parametrize("name", CASES)
def test_gives_the_published_error_rates(word_alignment, name):
    pair = name.split(".")[1]
    gold = read_gold(word_alignment / ("deen.talp" if pair == "deen" else f"{pair}.gold"))
    links = read_pharaoh(word_alignment / "reference-outputs" / name)
    if ".reverse." in name:
        links = [swap(line) for line in links]
    assert 100 * alignment_quality(links, gold).error_rate == pytest.approx(CASES[name], abs=0.051)


def test_is_the_formula():
    gold = [Gold(frozenset({(0, 0), (1, 1)}), frozenset({(1, 2)})), Gold(frozenset({(0, 1)}))]
    links = [[(0, 0), (1, 2), (2, 2)], [(0, 1), (0, 1)]]
    quality = alignment_quality(links, gold)
    assert quality.precision == pytest.approx(3 / 4)
    assert quality.recall == pytest.approx(2 / 3)
    assert quality.error_rate == pytest.approx(1 - (2 + 3) / (4 + 3))
    assert quality.f1 == pytest.approx(2 * (3 / 4) * (2 / 3) / (3 / 4 + 2 / 3))
    sure, possible = [truth.sure for truth in gold], [{(1, 2)}, set()]
    assert alignment_error_rate(links, sure, possible) == quality.error_rate


def test_possible_includes_sure():
    assert Gold(frozenset({(0, 0)}), frozenset({(1, 1)})).possible == {(0, 0), (1, 1)}


def test_extremes():
    gold = [Gold(frozenset({(0, 0)}))]
    nothing = alignment_quality([[]], gold)
    assert (nothing.error_rate, nothing.precision, nothing.recall, nothing.f1) == (1, 0, 0, 0)
    assert alignment_quality([[(0, 0)]], gold).error_rate == 0
    with pytest.raises(ValueError, match="no sure link"):
        alignment_quality([[]], [Gold(frozenset())])
    with pytest.raises(ValueError, match="links for 2 sentence pairs but gold for 1"):
        alignment_quality([[], []], gold)
    with pytest.raises(ValueError, match="sure links for 1 sentence pairs but possible ones for 0"):
        alignment_error_rate([[]], [{(0, 0)}], [])


def test_readers_return_indices_from_zero(tmp_path):
    file = tmp_path / "links"
    file.write_text("1-2 3p1 \n\n2-2\n")
    assert read_gold(file) == [
        Gold(frozenset({(0, 1)}), frozenset({(2, 0)})),
        Gold(frozenset()),
        Gold(frozenset({(1, 1)})),
    ]
    file.write_text("0-2 3-1\n\n")
    assert read_pharaoh(file) == [[(0, 2), (3, 1)], []]
    file.write_text("1 1 2\n3 2 2 P\n1 4 4 S\n")
    assert read_numbered_gold(file, count=3) == [
        Gold(frozenset({(0, 1), (3, 3)})),
        Gold(frozenset()),
        Gold(frozenset(), frozenset({(1, 1)})),
    ]


@pytest.mark.parametrize(
    ("read", "text", "message"),
    [
        (read_pharaoh, "0-0\n1:2\n", "line 2: '1:2' is not a link"),
        (read_pharaoh, "0-0 1p2\n", "line 1: '1p2' is not a link"),
        (read_pharaoh, "0-0 1-\n", "line 1: '1-' is not a link"),
        (read_gold, "1-1\n\n1-0\n", "line 3: '1-0' has a word 0"),
        (read_gold, "1-1 xp1\n", "line 1: 'xp1' is not a link"),
        (read_numbered, "1 1 1\n9 1 1\n", "line 2: sentence 9 is outside 1 to 2"),
        (read_numbered, "1 1\n", "line 1: '1 1' is not a link"),
        (read_numbered, "1 1 1 Q\n", "line 1: '1 1 1 Q' is not a link"),
        (read_numbered, "1 0 1\n", "line 1: '0-1' has a word 0"),
    ],
)
def test_a_wrong_line_is_named(tmp_path, read, text, message):
    file = tmp_path / "links"
    file.write_text(text)
    with pytest.raises(ValueError, match=message):
        read(file)


def test_other_files_are_refused(tmp_path):
    file = tmp_path / "links"
    file.write_bytes(b"1-1\n\xff\xfe")
    with pytest.raises(ValueError, match="not UTF-8 at byte 4"):
        read_pharaoh(file)
    with pytest.raises(FileNotFoundError):
        read_pharaoh(tmp_path / "missing")
