import pytest

from regard.metrics import by_length, exact_match

LENGTHS = [1, 10, 11, 20, 21, 90]
HYPOTHESES = ["a", "x", "c", "d", "x", "f"]
REFERENCES = ["a", "b", "c", "d", "e", "f"]


def test_each_sentence_is_in_one_bucket():
    table = by_length(LENGTHS, HYPOTHESES, REFERENCES, metric=exact_match, edges=(10, 20, 40))
    assert [(row.label, row.count, row.value) for row in table] == [
        ("0-10", 2, 0.5),
        ("11-20", 2, 1.0),
        ("21-40", 1, 0.0),
        ("41+", 1, 1.0),
    ]


def test_an_empty_bucket_has_no_value():
    table = by_length([5, 70], ["a", "b"], ["a", "b"], metric=exact_match)
    assert [row.count for row in table] == [1, 0, 0, 0, 0, 1]
    assert table[1].value is None


def test_wrong_arguments_are_refused():
    with pytest.raises(ValueError, match="there are 1 source lengths but 2 hypotheses"):
        by_length([1], ["a", "b"], ["a", "b"], metric=exact_match)
    with pytest.raises(ValueError, match=r"edges=\(20, 10\) must be ascending"):
        by_length([1], ["a"], ["a"], metric=exact_match, edges=(20, 10))
    with pytest.raises(ValueError, match="a source length of -1"):
        by_length([-1], ["a"], ["a"], metric=exact_match)
    with pytest.raises(ValueError, match="nothing to evaluate"):
        by_length([], [], [], metric=exact_match)
