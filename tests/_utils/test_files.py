"""Files of JSON lines, and folders that appear complete."""

from regard._utils import append_line, read_lines
from regard._utils.files import atomic_folder


def test_a_line_may_contain_any_character(tmp_path):
    path = tmp_path / "metrics.jsonl"
    records = [{"text": "a\u2028b\u2029c\x85d"}, {"text": "e"}]
    for record in records:
        append_line(path, record)
    assert read_lines(path) == records


def test_a_truncated_last_line_is_skipped(tmp_path):
    path = tmp_path / "metrics.jsonl"
    path.write_text('{"step": 1}\n{"st', encoding="utf-8")
    assert read_lines(path) == [{"step": 1}]


def test_a_folder_with_subfolders_appears_complete(tmp_path):
    with atomic_folder(tmp_path / "new") as folder:
        (folder / "inner").mkdir()
        (folder / "inner" / "file").write_text("content")
        assert not (tmp_path / "new").exists()
    assert (tmp_path / "new" / "inner" / "file").read_text() == "content"
    assert [path.name for path in tmp_path.iterdir()] == ["new"]
