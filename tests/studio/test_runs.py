"""Metrics of runs: read from where the last call ended, and never more than a bounded part."""

import json
from io import BytesIO

import pytest

pytest.importorskip("fastapi", reason="the studio is an extra")

from regard.studio import runs
from regard.studio.runs import read_lines_after


class CountingFile(BytesIO):
    """A file that counts what is read of it, and the largest part that is held at a time."""

    num_read = largest = 0

    def read(self, size=-1):
        data = super().read(size)
        self.num_read += len(data)
        self.largest = max(self.largest, len(data))
        return data


def lines_of(count, first=1):
    return b"".join(json.dumps({"step": step, "loss": 0.5}).encode() + b"\n" for step in range(first, first + count))


@pytest.fixture(autouse=True)
def _small(monkeypatch):
    monkeypatch.setattr(runs, "MAX_BYTES", 1000)
    monkeypatch.setattr(runs, "MAX_FIRST", 100)
    monkeypatch.setattr(runs, "MAX_SKIPPED", 5000)


def read_all(content):
    """All steps, as a page that requests the rest until there is none, and the numbers of bytes read."""
    after, steps, sizes = 0, [], []
    while True:
        file = CountingFile(content)
        page = read_lines_after(file, after)
        sizes.append(file.num_read)
        assert file.largest <= 1000
        if page.next == after:
            return steps, sizes
        steps += [line.step for line in page.lines]
        after = page.next


def test_a_long_file_is_read_in_parts_and_each_byte_about_once():
    content = lines_of(1000)
    steps, sizes = read_all(content)
    assert steps == list(range(1, 1001))
    assert max(sizes) <= 1000 + 101 and sum(sizes) < 1.3 * len(content)


def test_a_poll_reads_the_end_alone():
    content = lines_of(5)
    file = CountingFile(content + lines_of(1, first=6))
    page = read_lines_after(file, len(content))
    assert [line.step for line in page.lines] == [6] and file.num_read < 200
    file = CountingFile(content)
    assert read_lines_after(file, len(content)).lines == [] and file.num_read < 200


@pytest.mark.parametrize("length", [1000, 1001, 4000, 12_000])
def test_a_line_without_end_is_passed_over_in_bounded_parts(length):
    content = lines_of(2) + b"x" * length + b"\n" + lines_of(2, first=3)
    steps, sizes = read_all(content)
    assert steps == [1, 2, 3, 4] and max(sizes) <= 5000 + 2 * 1000 + 101


def test_a_long_line_that_is_still_written_is_not_read_again():
    content = lines_of(1) + b"x" * 20_000
    _, sizes = read_all(content)
    assert sum(sizes) < 1.5 * len(content)


def test_a_file_that_was_cut_or_replaced_has_another_name():
    content = lines_of(5)
    page = read_lines_after(BytesIO(content), 0)
    assert page.file
    # cut, as by a training that is resumed from an earlier step
    assert read_lines_after(BytesIO(lines_of(3)), page.next).file != page.file
    assert read_lines_after(BytesIO(lines_of(9, first=2)), page.next).file != page.file
    assert read_lines_after(BytesIO(lines_of(9)), page.next).file == page.file
    assert read_lines_after(BytesIO(b"x" * 300), 0).file != read_lines_after(BytesIO(b"y" * 300), 0).file
