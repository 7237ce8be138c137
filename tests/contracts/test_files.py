"""Files are complete or absent."""

import os

import pytest

from regard._utils import write_atomic


def test_a_failed_write_leaves_only_the_old_file(tmp_path, monkeypatch):
    path = tmp_path / "file.txt"
    write_atomic(path, b"old")

    def fail(source, target):
        raise OSError("disk full")

    monkeypatch.setattr(os, "replace", fail)
    with pytest.raises(OSError, match="disk full"):
        write_atomic(path, b"new", overwrite=True)
    assert path.read_bytes() == b"old"
    assert list(tmp_path.iterdir()) == [path]


def test_existing_files_and_folders_are_refused(tmp_path):
    path = tmp_path / "file.txt"
    write_atomic(path, b"old")
    with pytest.raises(ValueError, match="overwrite=True"):
        write_atomic(path, b"new")
    assert path.read_bytes() == b"old"
    with pytest.raises(ValueError, match="is a folder"):
        write_atomic(tmp_path, b"new", overwrite=True)


def test_written_files_have_default_permissions(tmp_path):
    path = tmp_path / "file.txt"
    before = os.umask(0o022)
    try:
        write_atomic(path, b"text")
    finally:
        os.umask(before)
    assert path.stat().st_mode & 0o777 == 0o644
