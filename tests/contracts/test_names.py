"""An unknown name suggests the nearest."""

import pytest

from regard._utils import check_name, nearest

KNOWN = {"bahdanau": 1, "luong": 2, "transformer": 3}


@pytest.mark.parametrize(
    ("given", "expected"), [("bahdanow", "bahdanau"), ("long", "luong"), ("transfomer", "transformer")]
)
def test_the_nearest_name_is_the_most_similar(given, expected):
    assert nearest(given, KNOWN) == expected


def test_every_name_has_a_nearest():
    assert nearest("", KNOWN) in KNOWN
    assert nearest("中文", KNOWN) in KNOWN


def test_a_known_name_passes_and_an_unknown_one_raises_an_error():
    check_name("luong", KNOWN, "model")
    with pytest.raises(
        ValueError, match=r"^there is no model 'luon'; the nearest is 'luong'\. Known: bahdanau, luong, "
    ):
        check_name("luon", iter(KNOWN), "model")
