import pytest

from regard.metrics import grow_diagonal, grow_diagonal_final, intersection, read_pharaoh, swap, union

FORWARD = [(0, 0), (1, 1), (2, 1), (3, 3), (5, 4)]
REVERSE = [(0, 0), (1, 1), (1, 2), (4, 3), (6, 6)]


def test_intersection_and_union():
    assert intersection(FORWARD, REVERSE) == [(0, 0), (1, 1)]
    assert union(FORWARD, REVERSE) == sorted({*FORWARD, *REVERSE})


def test_growing_by_hand():
    # from (1, 1): its sides (1, 2) and (2, 1), each with one new word; then (3, 3) is a corner of neither
    assert grow_diagonal(FORWARD, REVERSE) == [(0, 0), (1, 1), (1, 2), (2, 1)]
    # both of them have a word that is linked already
    assert grow_diagonal(FORWARD, REVERSE, unlinked="both") == [(0, 0), (1, 1)]


def test_growing_continues_from_what_was_added():
    forward, reverse = [(0, 0), (1, 1), (2, 2)], [(0, 0), (3, 3)]
    assert grow_diagonal(forward, reverse, unlinked="both") == [(0, 0), (1, 1), (2, 2), (3, 3)]


def test_final_adds_links_elsewhere():
    assert grow_diagonal_final(FORWARD, REVERSE) == [
        *grow_diagonal(FORWARD, REVERSE),
        *[(3, 3), (4, 3), (5, 4), (6, 6)],
    ]
    # (4, 3) shares its target word with (3, 3), which comes first
    assert grow_diagonal_final(FORWARD, REVERSE, final="both") == [
        *grow_diagonal(FORWARD, REVERSE),
        *[(3, 3), (5, 4), (6, 6)],
    ]


def test_without_links():
    assert grow_diagonal([], []) == grow_diagonal_final([], []) == []
    assert grow_diagonal([(0, 0)], []) == []
    assert grow_diagonal_final([(0, 0)], []) == [(0, 0)]


@pytest.mark.unchecked
@pytest.mark.parametrize("call", [grow_diagonal, grow_diagonal_final])
def test_an_unknown_condition_is_refused(call):
    with pytest.raises(ValueError, match="there is no condition 'bot'; the nearest is 'both'"):
        call(FORWARD, REVERSE, unlinked="bot")


@pytest.mark.parametrize("system", ["fastalign", "giza"])
@pytest.mark.parametrize("pair", ["deen", "enfr", "roen"])
def test_equals_the_published_combinations(word_alignment, system, pair):
    def read(name):
        return read_pharaoh(word_alignment / "reference-outputs" / f"{system}.{pair}{name}.talp")

    both = list(zip(read(""), [swap(line) for line in read(".reverse")], strict=True))
    # those files were combined with the condition that both words have no link
    grown = [grow_diagonal(*sides, unlinked="both") for sides in both]
    final = [grow_diagonal_final(*sides, unlinked="both", final="both") for sides in both]
    assert grown == [sorted(line) for line in read(".grow-diagonal")]
    assert final == [sorted(line) for line in read(".grow-diagonal-final")]
